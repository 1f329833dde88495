// Kernel entries attn_gather_packed_*: gather rows of a KV format from a paged pool into packed tensors of ToElem. Grid
// (rows / rows per CTA, keys and values). A chunk is eight elements; as in ops/rows.cuh a CTA processes
// GATHER_ROUNDS times its rows.
#pragma once
#include "abi/packed_params.cuh"
#include "lang/packed.cuh"
#include "ops/element.cuh"
#include "ops/slots.cuh"
#include "ops/packed_rows_params.cuh"

constexpr int GATHER_ROUNDS = 4;

// COUNT: elements that a store writes.
template <int COUNT, class Format>
inline void gather_rows(const PackedRowsParams& p, const RowsPart& part, const Strided& side, bool counts_skipped,
                        const Format& format) {
  RowChunk at = row_chunk(part.share);
  if (!at.exists) return;
  if (counts_skipped && blockIdx.x == 0 && threadIdx.x == 0) count_past_capacity(p);
  int chunks = part.share.chunks.divisor;
  u64 rows = static_cast<u64>(p.tokens) * part.share.heads.divisor;
  u64 first = static_cast<u64>(blockIdx.x) * (GATHER_ROUNDS * part.share.rows) + at.row;
  for (int chunk = at.chunk; chunk < chunks; chunk += OP_THREADS) {
#pragma unroll 2
    for (int round = 0; round < GATHER_ROUNDS; ++round) {
      u64 row = first + round * part.share.rows;
      if (row >= rows) break;
      DivMod token_head = divmod(row, part.share.heads);
      long long token = token_head.quotient;
      int head = token_head.remainder;
      PoolSlot slot = pool_slot(p, token);
      if (slot.invalid && counts_skipped && head == 0 && chunk == 0) count_skipped(p.status);
      if (slot.page < 0 || part.dim == 0) continue;
      GlobalBytes<8> codes(static_cast<const char*>(part.pool.data) + pool_offset(part.pool, slot, head));
      GlobalBytes<4> of_side(static_cast<const char*>(side.data) + pool_offset(side, slot, head));
      Array<float, 8> values = format.decode(codes, of_side, head, 8 * chunk);
      float factor = row_factor(part, head);
      ToElem* to = static_cast<ToElem*>(part.packed.data) + packed_offset(part.packed, token, head) + 8 * chunk;
#pragma unroll
      for (int i = 0; i < 8; i += COUNT) {
        float x[COUNT];
#pragma unroll
        for (int j = 0; j < COUNT; ++j) x[j] = values.x[i + j] * factor;
        ElementVector<ToElem, COUNT> result;
        result.encode(x);
        result.store(to + i);
      }
    }
  }
}

template <int COUNT>
inline void gather_part(const PackedRowsParams& p, const Variant& variant) {
  if (blockIdx.y == 0)
    gather_rows<COUNT>(p, p.part[0], p.sides.k, true, variant.key_format);
  else
    gather_rows<COUNT>(p, p.part[1], p.sides.v, false, variant.format_of_values());
}

extern "C" __global__ void __launch_bounds__(OP_THREADS, 4)
    attn_gather_packed_wide(const __grid_constant__ PackedRowsParams p, const __grid_constant__ Variant variant) {
  gather_part<8>(p, variant);
}
// For rows that are not aligned to 16 bytes.
extern "C" __global__ void __launch_bounds__(OP_THREADS, 4)
    attn_gather_packed_narrow(const __grid_constant__ PackedRowsParams p, const __grid_constant__ Variant variant) {
  gather_part<1>(p, variant);
}
