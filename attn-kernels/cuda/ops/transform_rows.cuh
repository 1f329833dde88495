// Rows of an append that pass through a hook. A warp processes a row in shared memory.
#pragma once
#include "ops/rows.cuh"
#include "ops/smem_row.cuh"

constexpr int TRANSFORM_WARPS = OP_THREADS / 32;
constexpr int TRANSFORM_ROWS = 4;  // rows per warp, one after the other

// Loads a packed row, a warp.
template <int COUNT>
inline void load_smem_row(const SmemRow& row, const RowsPart& part, long long token, int head) {
  const FromElem* from = static_cast<const FromElem*>(part.packed.data) + packed_offset(part.packed, token, head);
  for (int chunk = threadIdx.x % 32; chunk < static_cast<int>(part.share.chunks.divisor); chunk += 32) {
    ElementVector<FromElem, COUNT> loaded;
    loaded.load(from + chunk * COUNT);
    float x[COUNT];
    loaded.decode_to(x);
#pragma unroll
    for (int i = 0; i < COUNT; ++i) row.x[chunk * COUNT + i] = x[i];
  }
  __syncwarp();
}

// Stores a row, divided by its scale and rounded, a warp.
template <int COUNT, class E>
inline void store_smem_row(const SmemRow& row, const RowsPart& part, int head, E* to) {
  float factor = row_factor(part, head);
  for (int chunk = threadIdx.x % 32; chunk < static_cast<int>(part.share.chunks.divisor); chunk += 32) {
    float x[COUNT];
#pragma unroll
    for (int i = 0; i < COUNT; ++i) x[i] = row.x[chunk * COUNT + i] * factor;
    ElementVector<E, COUNT> result;
    result.encode(x);
    result.store(to + chunk * COUNT);
  }
}

// Passes rows through a hook. `store(row, slot, head)` writes a row to the pool.
template <int COUNT, class Hook, class Store>
inline void transform_rows(const RowsParams& p, const RowsPart& part, bool counts_skipped, Hook hook, Store store) {
  extern __shared__ __align__(16) float transform_memory[];
  int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
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
    load_smem_row<COUNT>(row, part, token, head);
    int request = p.requests ? p.requests[token] : 0, position = p.positions ? p.positions[token] : 0;
    KvIndex at = {request, position, static_cast<int>(token), head, 0};
    hook(row, at);
    __syncwarp();
    store(row, slot, head);
    __syncwarp();
  }
}
