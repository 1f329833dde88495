// Kernel entries attn_encode_*: append rows of K and V to a paged pool of KV formats. All rows pass through shared
// memory, with a hook or without, and are encoded as they are written. Grid (rows / rows per CTA, keys and values).
#pragma once
#include "abi/packed_params.cuh"
#include "ops/encode_row.cuh"
#include "ops/transform_rows.cuh"
#include "ops/packed_rows_params.cuh"

template <int COUNT, class Hook, class Format>
inline void encode_rows(const PackedRowsParams& p, const RowsPart& part, bool counts_skipped, Hook hook,
                        const Format& format) {
  const Strided& side = blockIdx.y == 0 ? p.sides.k : p.sides.v;
  auto store = [&](const SmemRow& row, PoolSlot slot, int head) {
    float factor = row_factor(part, head);
    for (int d = threadIdx.x % 32; d < part.dim; d += 32) row.x[d] *= factor;
    __syncwarp();
    PackedOut codes = {static_cast<unsigned char*>(part.pool.data) + pool_offset(part.pool, slot, head)};
    PackedOut of_side = {static_cast<unsigned char*>(side.data) + pool_offset(side, slot, head)};
    format.encode(EncodeRow{row.x, part.dim}, codes, of_side, head);
  };
  transform_rows<COUNT>(p, part, counts_skipped, hook, store);
}

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
    encode_rows<COUNT>(p, part, true, key, variant.key_format);
  else
    encode_rows<COUNT>(p, part, false, value, variant.format_of_values());
}

extern "C" __global__ void __launch_bounds__(OP_THREADS, 4)
    attn_encode_wide(const __grid_constant__ PackedRowsParams p, const __grid_constant__ Variant variant) {
  transform_part<CHUNK<FromElem, FromElem>>(p, variant);
}
extern "C" __global__ void __launch_bounds__(OP_THREADS, 4)
    attn_encode_narrow(const __grid_constant__ PackedRowsParams p, const __grid_constant__ Variant variant) {
  transform_part<1>(p, variant);
}
