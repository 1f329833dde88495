// Kernel entries attn_rotate_append_*: append rows of K and V as ops/transform.cuh does, and transform the queries of
// the same tokens. Grid (rows / rows per CTA, keys, then values if any, then queries, then elements of queries that are
// only converted, if any).
#pragma once
#include "ops/transform.cuh"
#include "abi/packed_params.cuh"
#include "ops/packed_rows_params.cuh"
#include "ops/rotate_append_params.cuh"

// Rows of queries: through a hook, divided by their scale, rounded to QueryElem. Every token has them, also one without
// a slot. Source and target may be the same memory: a warp has read a row before it writes it.
template <int COUNT, class Hook>
inline void query_rows(const RotateAppendParams& p, const RowsPart& part, Hook hook) {
  extern __shared__ __align__(16) float transform_memory[];
  int warp = threadIdx.x / 32;
  SmemRow row{transform_memory + warp * part.dim, part.dim};
  int heads = part.share.heads.divisor, group = heads / static_cast<int>(p.part[0].share.heads.divisor);
  u64 rows = static_cast<u64>(p.tokens) * heads;
  u64 first = static_cast<u64>(blockIdx.x) * (TRANSFORM_WARPS * TRANSFORM_ROWS) + warp;
#pragma unroll 1
  for (int round = 0; round < TRANSFORM_ROWS; ++round) {
    u64 row_number = first + round * TRANSFORM_WARPS;
    if (row_number >= rows) return;
    DivMod token_head = divmod(row_number, part.share.heads);
    long long token = token_head.quotient;
    int head = token_head.remainder;
    load_smem_row<COUNT>(row, part, token, head);
    int position = p.positions ? p.positions[token] : 0;
    hook(row, RowIndex{0, 0, position, static_cast<int>(token), head, head / group, 0, 0});
    __syncwarp();
    QueryElem* to = static_cast<QueryElem*>(part.pool.data) + packed_offset(part.pool, token, head);
    store_smem_row<COUNT>(row, part, head, to);
    __syncwarp();
  }
}

// `COUNT`: elements of a chunk of keys and values; `QUERIES`: of queries.
template <int COUNT, int QUERIES>
inline void rotate_append_part(const RotateAppendParams& p, const Variant& variant) {
  int of_queries = static_cast<int>(blockIdx.y) - p.kv_parts;
  if (of_queries < 0) return transform_part<COUNT>(p, variant);
  const RowsPart& part = p.queries[of_queries];
  query_rows<QUERIES>(p, part, [&](SmemRow& row, RowIndex at) {
    if constexpr (Variant::HAS_QUERY_TRANSFORM)
      if (of_queries == 0) variant.query_transform(row, at);
  });
}

extern "C" __global__ void __launch_bounds__(OP_THREADS, 4)
    attn_rotate_append_wide(const __grid_constant__ RotateAppendParams p, const __grid_constant__ Variant variant) {
  rotate_append_part<KV_CHUNK, QUERY_CHUNK>(p, variant);
}
extern "C" __global__ void __launch_bounds__(OP_THREADS, 4)
    attn_rotate_append_narrow(const __grid_constant__ RotateAppendParams p, const __grid_constant__ Variant variant) {
  rotate_append_part<1, 1>(p, variant);
}
