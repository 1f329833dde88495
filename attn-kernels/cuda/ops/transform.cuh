// attn_transform_*: new rows through the hooks of a variant, and into the pool. Grid (rows over those of a CTA, keys and values). A warp has a
// row, in shared memory; keys or values without a hook move as in op_rows.cuh.
#pragma once
#include "ops/rows.cuh"
#include "ops/smem_row.cuh"

constexpr int TRANSFORM_WARPS = OP_THREADS / 32;
constexpr int TRANSFORM_ROWS = 4;  // of a warp, one after the other

template <int COUNT, class Hook>
inline void transform_rows(const RowsParams& p, const RowsPart& part, bool counts, Hook hook) {
  extern __shared__ __align__(16) float transform_memory[];
  int warp = threadIdx.x / 32, lane = threadIdx.x % 32, chunks = part.share.chunks.divisor;
  SharedRow row{transform_memory + warp * part.dim, part.dim};
  u64 rows = static_cast<u64>(p.tokens) * part.share.heads.divisor;
  u64 first = static_cast<u64>(blockIdx.x) * (TRANSFORM_WARPS * TRANSFORM_ROWS) + warp;
#pragma unroll 1
  for (int round = 0; round < TRANSFORM_ROWS; ++round) {
    u64 number = first + round * TRANSFORM_WARPS;
    if (number >= rows) return;
    Split where = split(number, part.share.heads);
    long long token = where.quotient;
    int head = where.rest;
    PoolPlace place = place_of_new(p, token);  // the same for the warp
    if (place.bad && counts && head == 0 && lane == 0) count_in(p.status);
    if (place.page < 0 || part.dim == 0) continue;
    const FromElem* from = static_cast<const FromElem*>(part.packed.data) + packed_offset(part.packed, token, head);
    for (int chunk = lane; chunk < chunks; chunk += 32) {
      Loaded<FromElem, COUNT> loaded;
      loaded.load(from + chunk * COUNT);
      float x[COUNT];
      loaded.decode_to(x);
#pragma unroll
      for (int i = 0; i < COUNT; ++i) row.x[chunk * COUNT + i] = x[i];
    }
    __syncwarp();
    KvIndex at = {p.requests ? p.requests[token] : 0, p.positions ? p.positions[token] : 0, 0, head, 0};
    hook(row, at);
    __syncwarp();
    float factor = row_factor(part, head);
    ToElem* to = static_cast<ToElem*>(part.pool.data) + pool_offset(part.pool, place, head);
    for (int chunk = lane; chunk < chunks; chunk += 32) {
      float x[COUNT];
#pragma unroll
      for (int i = 0; i < COUNT; ++i) x[i] = row.x[chunk * COUNT + i] * factor;
      Loaded<ToElem, COUNT> result;
      result.encode(x);
      result.store(to + chunk * COUNT);
    }
    __syncwarp();
  }
}

template <int COUNT>
inline void transform_part(const RowsParams& p, const Variant& variant) {
  const RowsPart& part = p.part[blockIdx.y];
  if (blockIdx.y == 0) {
    if constexpr (Variant::HAS_KEY_TRANSFORM)
      return transform_rows<COUNT>(p, part, true, [&](SharedRow& row, KvIndex at) { variant.key_transform(row, at); });
  } else {
    if constexpr (Variant::HAS_VALUE_TRANSFORM)
      return transform_rows<COUNT>(p, part, false, [&](SharedRow& row, KvIndex at) { variant.value_transform(row, at); });
  }
  RowMover<COUNT>::run(p, part, blockIdx.y == 0);
}

extern "C" __global__ void __launch_bounds__(OP_THREADS, 4)
    attn_transform_wide(const __grid_constant__ RowsParams p, const __grid_constant__ Variant variant) {
  transform_part<CHUNK<FromElem, ToElem>>(p, variant);
}
extern "C" __global__ void __launch_bounds__(OP_THREADS, 4)
    attn_transform_narrow(const __grid_constant__ RowsParams p, const __grid_constant__ Variant variant) {
  transform_part<1>(p, variant);
}
