// Decodes the stored rows of a step of decode, for all products: keys and values of a KV format become 16-bit elements,
// or f32 if Q is f32.
#pragma once
#include "decode/kv_pipeline.cuh"
#include "memory/half_row.cuh"
#include "memory/kv_scales.cuh"
#include "memory/packed_row.cuh"

// The layout of a row: that of hooks if there is one.
template <int DIM, bool HOOKED>
using WidenedRow = typename Choose<HOOKED, HookRow<DIM>, RowOf<DIM>>::type;

// Decodes the rows of this warp's step; warps that share keys share the rows. `load` decodes the row of a key, and
// `hook` changes it.
template <class Row, class To, class Load, class Hook>
inline void widen_rows(To to, Load load, Hook hook) {
  constexpr int ROWS = 32 / Row::LANES_OF_ROW;  // that a warp holds at once
  // A hook may be long, so the loop is not unrolled: its code exists once.
#pragma unroll 1
  for (int first = threadIdx.x / 32 % ROW_WARPS * ROWS; first < WARP_KEYS; first += ROWS * ROW_WARPS) {
    int own = first + threadIdx.x % 32 / Row::LANES_OF_ROW, key = min(own, WARP_KEYS - 1);
    Row values;
    load(values, key);
    hook(values, key);
    if (own < WARP_KEYS) store_hook_row(to, key, values);
  }
}

// Decodes those keys and values of a stage that have a buffer. Rows pass through the K and V transforms after their
// scales are applied; without a transform the scales are folded as elsewhere. `index` gives the coordinates of a key;
// all lanes call it.
template <class Index>
inline void widen_stage(const KernelParams& p, const Variant& variant, const KvPipeline& pipeline, int stage,
                        int kv_head, Index index) {
  if constexpr (WIDEN_KEYS)
    widen_rows<WidenedRow<HEAD_DIM_QK, Variant::HAS_KEY_TRANSFORM>>(
        pipeline.keys(stage),
        [&](auto& row, int key) {
          load_packed_row(row, variant.key_format, pipeline.key_codes(stage, key), pipeline.key_side(stage, key),
                          kv_head);
        },
        [&](auto& row, int key) {
          if constexpr (Variant::HAS_KEY_TRANSFORM) {
            float scale = key_scale(p, kv_head);
            row.map([&](int, float x) { return x * scale; });
            variant.key_transform(row, index(key));
          }
        });
  if constexpr (WIDEN_VALUES)
    widen_rows<WidenedRow<HEAD_DIM_VO, Variant::HAS_VALUE_TRANSFORM>>(
        pipeline.values(stage),
        [&](auto& row, int key) {
          load_packed_row(row, variant.format_of_values(), pipeline.value_codes(stage, key),
                          pipeline.value_side(stage, key), kv_head);
        },
        [&](auto& row, int key) {
          if constexpr (Variant::HAS_VALUE_TRANSFORM) {
            float scale = value_scale(p, kv_head);
            row.map([&](int, float x) { return x * scale; });
            variant.value_transform(row, index(key));
          }
        });
  if constexpr (WIDEN_KEYS || WIDEN_VALUES) KvPipeline::sync();
}
