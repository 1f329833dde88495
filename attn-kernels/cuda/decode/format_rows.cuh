// Rows of KV formats in decode, in place of decode/dense_rows.cuh: codes, and side data beside them.
#pragma once
#include "abi/launch_params.cuh"
#include "decode/async_copy.cuh"
#include "decode/rewrite_rows.cuh"
#include "memory/address.cuh"
#include "memory/half_row.cuh"
#include "memory/kv_scales.cuh"
#include "memory/packed_row.cuh"
#include "memory/shared_bytes.cuh"

// Rows are decoded to f16 in a separate buffer, or to f32 if Q is f32, unless each lane decodes its operands of the
// MMAs, or the MMAs take codes. Values that share the rows of K are decoded with them.
constexpr bool WIDEN_KEYS = !LINEAR_KEYS && !FRAGMENT_KEYS;
constexpr bool WIDEN_VALUES = !V_SHARES_K && !LINEAR_VALUES && !FRAGMENT_VALUES;
using WideElem = Choose<SAME<QoElem, float>, float, f16>;
using KeyElem = WideElem;
using ValueElem = WideElem;

// Whether keys that are contiguous in memory are copied without looking at the location of each, and how far loops of
// copies are unrolled. With longer rows NVRTC 13.0 compiles wrong code where registers are short: the loop over the
// rows of V advances the address of a stage in place, and the first word of its side data is then copied behind it. So
// 2 of 204 cases of the latent grid over int8 were wrong on an H200 with both ways, and with one 3 over mx_fp8, in
// which a hook rewrites keys. Without a loop nothing is advanced.
constexpr bool COPIES_RUNS = K_CODE_BYTES <= 512 && V_CODE_BYTES <= 512;
constexpr int COPIES_UNROLLED = COPIES_RUNS || V_SHARES_K ? 4 : 32;

// Whether partials may need more memory than a stage has.
constexpr bool STAGES_ARE_SHORT = true;

// A stage as it was copied: codes of K and of V, then their side data.
struct StoredStage {
  using Keys = RowTile<KvElem, WARP_KEYS, K_CODE_BYTES>;
  using Values = RowTile<KvElem, WARP_KEYS, V_CODE_BYTES>;
  static constexpr int K_SIDE_BEGIN = Keys::BYTES + (V_SHARES_K ? 0 : Values::BYTES);
  static constexpr int V_SIDE_BEGIN = K_SIDE_BEGIN + WARP_KEYS * K_SIDE_BYTES;
  static constexpr int BYTES = (V_SIDE_BEGIN + (V_SHARES_K ? 0 : WARP_KEYS * V_SIDE_BYTES) + 127) / 128 * 128;

  unsigned base;

  Keys stored_keys() const { return {base}; }
  Values stored_values() const { return {base + (V_SHARES_K ? 0 : Keys::BYTES)}; }

  // The stored rows of a key and of its value.
  SharedCodes<Keys> key_codes(int key) const { return {stored_keys(), key}; }
  SharedCodes<Values> value_codes(int key) const { return {stored_values(), key}; }
  SharedSide key_side(int key) const { return SharedSide(base + K_SIDE_BEGIN + key * K_SIDE_BYTES); }
  SharedSide value_side(int key) const { return SharedSide(base + V_SIDE_BEGIN + key * V_SIDE_BYTES); }
};

// The side data of a head.
class SideData {
  const char* k_;  // at page 0, slot 0
  const char* v_;

 public:
  SideData(const KernelParams& p, int kv_head) {
    const KvSides& sides = kv_sides(p);
    k_ = static_cast<const char*>(sides.k.data) + kv_head * sides.k.head;
    v_ = static_cast<const char*>(sides.v.data) + kv_head * sides.v.head;
  }

  // Copies the side data of the key that this lane looked up, or of its value.
  void copy_keys(const StoredStage& to, const KernelParams& p, KvLocation location, const AsyncCopy& chunks) const {
    copy<K_SIDE_BYTES>(to.base + StoredStage::K_SIDE_BEGIN, k_, kv_sides(p).k, location, chunks);
  }
  void copy_values(const StoredStage& to, const KernelParams& p, KvLocation location, const AsyncCopy& chunks) const {
    copy<V_SIDE_BYTES>(to.base + StoredStage::V_SIDE_BEGIN, v_, kv_sides(p).v, location, chunks);
  }

 private:
  template <int BYTES>
  static void copy(unsigned to, const char* data, const Strided& t, KvLocation location, const AsyncCopy& chunks) {
    constexpr int CHUNK_BYTES = BYTES % 16 == 0 ? 16 : BYTES % 8 == 0 ? 8 : 4;
    static_assert(BYTES % CHUNK_BYTES == 0, "side data are whole words");
    int key = threadIdx.x % (32 * ROW_WARPS);
    if (BYTES == 0 || key >= WARP_KEYS) return;
    const char* from = data + key_offset<KV_PAGED>(t, location);
#pragma unroll COPIES_UNROLLED
    for (int i = 0; i < BYTES; i += CHUNK_BYTES) chunks.copy<CHUNK_BYTES>(to + key * BYTES + i, from + i);
  }
};

// The layout of a row: that of hooks if there is one.
template <int DIM, bool HOOKED>
using WidenedRow = Choose<HOOKED, HookRow<DIM>, RowOf<DIM>>;

// Decodes those keys and values of a stage that have a buffer. Rows pass through the K and V transforms after their
// scales are applied; without a transform the scales are folded as elsewhere. `index` gives the coordinates of a key;
// all lanes call it.
template <bool WHOLE_PASSES, class Pipeline, class Index>
inline void rewrite_stage(const KernelParams& p, const Variant& variant, const Pipeline& pipeline, int i, int kv_head,
                          Index index) {
  if constexpr (WIDEN_KEYS)
    rewrite_rows<WidenedRow<HEAD_DIM_QK, Variant::HAS_KEY_TRANSFORM>, WHOLE_PASSES>(
        pipeline.stage(i).keys(),
        [&](auto& row, int key) {
          auto stage = pipeline.stage(i);
          load_packed_row(row, variant.key_format, stage.key_codes(key), stage.key_side(key), kv_head);
        },
        [&](auto& row, int key) {
          if constexpr (Variant::HAS_KEY_TRANSFORM) {
            float scale = key_scale(p, kv_head);
            row.map([&](int, float x) { return x * scale; });
            variant.key_transform(row, index(key));
          }
        });
  if constexpr (WIDEN_VALUES)
    rewrite_rows<WidenedRow<HEAD_DIM_VO, Variant::HAS_VALUE_TRANSFORM>, WHOLE_PASSES>(
        pipeline.stage(i).values(),
        [&](auto& row, int key) {
          auto stage = pipeline.stage(i);
          load_packed_row(row, variant.format_of_values(), stage.value_codes(key), stage.value_side(key), kv_head);
        },
        [&](auto& row, int key) {
          if constexpr (Variant::HAS_VALUE_TRANSFORM) {
            float scale = value_scale(p, kv_head);
            row.map([&](int, float x) { return x * scale; });
            variant.value_transform(row, index(key));
          }
        });
  if constexpr (WIDEN_KEYS || WIDEN_VALUES) sync_row_warps();
}
