// Kernel entries attn_transform_*: append rows of K and V to a paged pool through the variant's K and V transforms.
// Grid (rows / rows per CTA, keys and values). Keys or values without a transform are copied as in ops/rows.cuh.
// ops/encode.cuh takes its place over pools of KV formats.
#pragma once
#include "ops/transform_rows.cuh"

// Rounds rows to ToElem as they are written.
template <int COUNT, class Hook>
inline void transform_rows(const RowsParams& p, const RowsPart& part, bool counts_skipped, Hook hook) {
  auto store = [&](const SmemRow& row, PoolSlot slot, int head) {
    store_smem_row<COUNT>(row, part, head, static_cast<ToElem*>(part.pool.data) + pool_offset(part.pool, slot, head));
  };
  transform_rows<COUNT>(p, part, counts_skipped, hook, store);
}

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
