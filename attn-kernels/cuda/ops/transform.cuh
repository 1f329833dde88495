// Kernel entries attn_transform_*: append rows of K and V to a paged pool through the variant's K and V transforms.
// Grid (rows / rows per CTA, keys and values). A warp processes a row in shared memory. Keys or values without a
// transform are copied as in ops/rows.cuh.
#pragma once
#include "ops/rows.cuh"
#include "ops/smem_row.cuh"
#ifdef ATTN_KV_FORMAT
#include "abi/packed_params.cuh"
#include "ops/encode_row.cuh"
#include "ops/packed_rows_params.cuh"

// Rows of a KV format are encoded as they are written. All rows pass through here, with a hook or without.
#endif  // ATTN_KV_FORMAT

constexpr int TRANSFORM_WARPS = OP_THREADS / 32;
constexpr int TRANSFORM_ROWS = 4;  // rows per warp, one after the other

#ifdef ATTN_KV_FORMAT
template <int COUNT, class Hook, class Format>
inline void transform_rows(const PackedRowsParams& p, const RowsPart& part, bool counts_skipped, Hook hook,
                           const Format& format) {
  const Strided& side = blockIdx.y == 0 ? p.sides.k : p.sides.v;
#else  // ATTN_KV_FORMAT
template <int COUNT, class Hook>
inline void transform_rows(const RowsParams& p, const RowsPart& part, bool counts_skipped, Hook hook) {
#endif  // ATTN_KV_FORMAT
  extern __shared__ __align__(16) float transform_memory[];
  int warp = threadIdx.x / 32, lane = threadIdx.x % 32, chunks = part.share.chunks.divisor;
  SmemRow row{transform_memory + warp * part.dim, part.dim};
  u64 rows = static_cast<u64>(p.tokens) * part.share.heads.divisor;
  u64 first = static_cast<u64>(blockIdx.x) * (TRANSFORM_WARPS * TRANSFORM_ROWS) + warp;
#pragma unroll 1
  for (int round = 0; round < TRANSFORM_ROWS; ++round) {
    u64 row_number = first + round * TRANSFORM_WARPS;
    if (row_number >= rows) return;
    DivMod token_head = divmod(row_number, part.share.heads);
    long long token = token_head.quotient;
    int head = token_head.remainder;
    PoolSlot slot = append_slot(p, token);  // warp-uniform
    if (slot.invalid && counts_skipped && head == 0 && lane == 0) count_skipped(p.status);
    if (slot.page < 0 || part.dim == 0) continue;
    const FromElem* from = static_cast<const FromElem*>(part.packed.data) + packed_offset(part.packed, token, head);
    for (int chunk = lane; chunk < chunks; chunk += 32) {
      ElementVector<FromElem, COUNT> loaded;
      loaded.load(from + chunk * COUNT);
      float x[COUNT];
      loaded.decode_to(x);
#pragma unroll
      for (int i = 0; i < COUNT; ++i) row.x[chunk * COUNT + i] = x[i];
    }
    __syncwarp();
    int request = p.requests ? p.requests[token] : 0, position = p.positions ? p.positions[token] : 0;
    KvIndex at = {request, position, static_cast<int>(token), head, 0};
    hook(row, at);
    __syncwarp();
    float factor = row_factor(part, head);
#ifdef ATTN_KV_FORMAT
    for (int d = lane; d < part.dim; d += 32) row.x[d] *= factor;
    __syncwarp();
    PackedOut codes = {static_cast<unsigned char*>(part.pool.data) + pool_offset(part.pool, slot, head)};
    PackedOut of_side = {static_cast<unsigned char*>(side.data) + pool_offset(side, slot, head)};
    format.encode(EncodeRow{row.x, part.dim}, codes, of_side, head);
#else  // ATTN_KV_FORMAT
    ToElem* to = static_cast<ToElem*>(part.pool.data) + pool_offset(part.pool, slot, head);
    for (int chunk = lane; chunk < chunks; chunk += 32) {
      float x[COUNT];
#pragma unroll
      for (int i = 0; i < COUNT; ++i) x[i] = row.x[chunk * COUNT + i] * factor;
      ElementVector<ToElem, COUNT> result;
      result.encode(x);
      result.store(to + chunk * COUNT);
    }
#endif  // ATTN_KV_FORMAT
    __syncwarp();
  }
}

#ifdef ATTN_KV_FORMAT
template <int COUNT>
inline void transform_part(const PackedRowsParams& p, const Variant& variant) {
  const RowsPart& part = p.part[blockIdx.y];
  auto key = [&](SmemRow& row, KvIndex at) {
    if constexpr (Variant::HAS_KEY_TRANSFORM) variant.key_transform(row, at);
  };
  auto value = [&](SmemRow& row, KvIndex at) {
    if constexpr (Variant::HAS_VALUE_TRANSFORM) variant.value_transform(row, at);
  };
  if (blockIdx.y == 0)
    transform_rows<COUNT>(p, part, true, key, variant.key_format);
  else
    transform_rows<COUNT>(p, part, false, value, variant.format_of_values());
}

extern "C" __global__ void __launch_bounds__(OP_THREADS, 4)
    attn_encode_wide(const __grid_constant__ PackedRowsParams p, const __grid_constant__ Variant variant) {
  transform_part<CHUNK<FromElem, FromElem>>(p, variant);
}
extern "C" __global__ void __launch_bounds__(OP_THREADS, 4)
    attn_encode_narrow(const __grid_constant__ PackedRowsParams p, const __grid_constant__ Variant variant) {
  transform_part<1>(p, variant);
}
#else  // ATTN_KV_FORMAT
template <int COUNT>
inline void transform_part(const RowsParams& p, const Variant& variant) {
  const RowsPart& part = p.part[blockIdx.y];
  if (blockIdx.y == 0) {
    if constexpr (Variant::HAS_KEY_TRANSFORM)
      return transform_rows<COUNT>(p, part, true, [&](SmemRow& row, KvIndex at) { variant.key_transform(row, at); });
  } else {
    if constexpr (Variant::HAS_VALUE_TRANSFORM)
      return transform_rows<COUNT>(p, part, false, [&](SmemRow& row, KvIndex at) { variant.value_transform(row, at); });
  }
  RowCopier<COUNT>::run(p, part, blockIdx.y == 0);
}

extern "C" __global__ void __launch_bounds__(OP_THREADS, 4)
    attn_transform_wide(const __grid_constant__ RowsParams p, const __grid_constant__ Variant variant) {
  transform_part<CHUNK<FromElem, ToElem>>(p, variant);
}
extern "C" __global__ void __launch_bounds__(OP_THREADS, 4)
    attn_transform_narrow(const __grid_constant__ RowsParams p, const __grid_constant__ Variant variant) {
  transform_part<1>(p, variant);
}
#endif  // ATTN_KV_FORMAT
