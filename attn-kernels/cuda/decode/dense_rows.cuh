// Dense rows of K and V in decode: elements of 16 bits, FP8, or f32 on CUDA cores. decode/format_rows.cuh takes its
// place over rows of KV formats.
#pragma once
#include "abi/launch_params.cuh"
#include "decode/async_copy.cuh"
#include "decode/rewrite_rows.cuh"
#include "memory/address.cuh"
#include "memory/half_row.cuh"
#include "memory/kv_scales.cuh"

// A K or V transform writes FP8 rows as f16 into a separate buffer, or as f32 if Q is f32. It rewrites other rows in
// place, those of 16 bits as f16.
constexpr bool WIDEN_KEYS = IS_FP8<KvElem> && Variant::HAS_KEY_TRANSFORM;
constexpr bool WIDEN_VALUES = IS_FP8<KvElem> && Variant::HAS_VALUE_TRANSFORM;
using WideElem = Choose<SAME<QoElem, float>, float, f16>;

// Element types of K and V after the transforms. P has the type that V takes in an MMA.
using KeyElem = Choose<Variant::HAS_KEY_TRANSFORM, WideElem, KvElem>;
using ValueElem = Choose<WIDEN_VALUES, WideElem, KvElem>;

// Whether keys that are contiguous in memory are copied without looking at the location of each, and how far loops of
// copies are unrolled.
constexpr bool COPIES_RUNS = true;
constexpr int COPIES_UNROLLED = 4;
// Whether partials may need more memory than a stage has.
constexpr bool STAGES_ARE_SHORT = false;

// A stage as it was copied: the rows of K and of V. With V_SHARES_K the values are the first elements of the rows of K.
struct StoredStage {
  using Keys = RowTile<KvElem, WARP_KEYS, HEAD_DIM_QK>;
  using Values = RowTile<KvElem, WARP_KEYS, V_SHARES_K ? HEAD_DIM_QK : HEAD_DIM_VO>;
  static constexpr int BYTES = Keys::BYTES + (V_SHARES_K ? 0 : Values::BYTES);

  unsigned base;

  Keys stored_keys() const { return {base}; }
  Values stored_values() const { return {base + (V_SHARES_K ? 0 : Keys::BYTES)}; }
};

// Dense rows have no side data.
struct SideData {
  SideData(const KernelParams&, int) {}
  void copy_keys(const StoredStage&, const KernelParams&, KvLocation, const AsyncCopy&) const {}
  void copy_values(const StoredStage&, const KernelParams&, KvLocation, const AsyncCopy&) const {}
};

// Passes the rows of a tile through a row hook. `scale` multiplies the stored elements.
template <class Row, bool WHOLE_PASSES, class From, class To, class Hook>
inline void apply_row_hook(From from, To to, float scale, Hook hook) {
  rewrite_rows<Row, WHOLE_PASSES>(
      to, [&](Row& row, int key) { load_hook_row(row, from, key); },
      [&](Row& row, int key) {
        if (scale != 1.f) row.map([&](int, float x) { return x * scale; });
        hook(row, key);
        if constexpr (!WHOLE_PASSES) __syncwarp();  // all lanes have read
      });
  sync_row_warps();
}

// Passes the keys and values of a stage through the K and V transforms. `index` gives the coordinates of a key; all
// lanes call it.
template <bool WHOLE_PASSES, class Pipeline, class Index>
inline void rewrite_stage(const KernelParams& p, const Variant& variant, const Pipeline& pipeline, int i, int kv_head,
                          Index index) {
  auto stage = pipeline.stage(i);
  using Key = HookRow<HEAD_DIM_QK>;
  using Value = HookRow<HEAD_DIM_VO>;
  if constexpr (Variant::HAS_KEY_TRANSFORM)
    apply_row_hook<Key, WHOLE_PASSES>(stage.stored_keys(), stage.keys(), key_scale(p, kv_head),
                                      [&](Key& row, int key) { variant.key_transform(row, index(key)); });
  if constexpr (Variant::HAS_VALUE_TRANSFORM)
    apply_row_hook<Value, WHOLE_PASSES>(stage.stored_values(), stage.values(), value_scale(p, kv_head),
                                        [&](Value& row, int key) { variant.value_transform(row, index(key)); });
}
