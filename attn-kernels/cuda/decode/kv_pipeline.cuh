// The cp.async pipeline that brings K and V tiles from global into shared memory in decode.
//
// ROW_WARPS warps share a pipeline of STAGES stages, each with a tile of WARP_KEYS keys and their values. With one, as
// in all kernels on tensor cores, a warp owns its keys and never waits for another warp. On CUDA cores the warps of
// prefill tiles share keys, and each has rows of its own.
#pragma once

#include "memory/half_row.cuh"
#include "schedule/kv_load_iter.cuh"
#include "merge/partial.cuh"
#include "memory/row_tile.cuh"
#ifdef ATTN_KV_FORMAT
#include "abi/launch_params.cuh"
#include "memory/shared_bytes.cuh"
#endif  // ATTN_KV_FORMAT

constexpr int THREADS = WARPS * 32;
constexpr int KEY_WARPS = WARPS / ROW_WARPS;  // pipelines of the CTA, each with keys of its own
static_assert(STEP_KEYS == KEY_WARPS * WARP_KEYS, "a step of the CTA is one of every pipeline");
static_assert(ROW_WARPS == 1 || KEY_WARPS == 1, "warps that share a pipeline synchronise as a CTA");

#ifdef ATTN_KV_FORMAT
// Rows of a KV format are decoded to f16 in a separate buffer, or to f32 if Q is f32, unless each lane decodes its
// operands of the MMAs, or the MMAs take codes. Values that share the rows of K are decoded with them.
constexpr bool WIDEN_KEYS = !LINEAR_KEYS && !FRAGMENT_KEYS;
constexpr bool WIDEN_VALUES = !V_SHARES_K && !LINEAR_VALUES && !FRAGMENT_VALUES;
using WideElem = Choose<SAME<QoElem, float>, float, f16>::type;
using KeyElem = WideElem;
using ValueElem = WideElem;
#else  // ATTN_KV_FORMAT
// A K or V transform writes FP8 rows as f16 into a separate buffer, or as f32 if Q is f32. It rewrites other rows in
// place, those of 16 bits as f16.
constexpr bool WIDEN_KEYS = IS_FP8<KvElem> && Variant::HAS_KEY_TRANSFORM;
constexpr bool WIDEN_VALUES = IS_FP8<KvElem> && Variant::HAS_VALUE_TRANSFORM;
using WideElem = Choose<SAME<QoElem, float>, float, f16>::type;

// Element types of K and V after the transforms. P has the type that V takes in an MMA.
using KeyElem = Choose<Variant::HAS_KEY_TRANSFORM, WideElem, KvElem>::type;
using ValueElem = Choose<WIDEN_VALUES, WideElem, KvElem>::type;
#endif  // ATTN_KV_FORMAT

// The K and V tiles of a warp's step. With V_SHARES_K the values are the first elements of the rows of K.
template <class E>
using WarpSmemK = RowTile<E, WARP_KEYS, HEAD_DIM_QK>;
template <class E>
using WarpSmemV = RowTile<E, WARP_KEYS, V_SHARES_K ? HEAD_DIM_QK : HEAD_DIM_VO>;
static_assert(!V_SHARES_K || !(Variant::HAS_KEY_TRANSFORM || Variant::HAS_VALUE_TRANSFORM),
              "K and V cannot share rows that a hook rewrites");

class KvPipeline {
#ifdef ATTN_KV_FORMAT
  using StoredSmemK = RowTile<KvElem, WARP_KEYS, K_CODE_BYTES>;
  using StoredSmemV = RowTile<KvElem, WARP_KEYS, V_CODE_BYTES>;
  // a stage: codes of K and of V, then their side data
  static constexpr int K_SIDE_BEGIN = StoredSmemK::BYTES + (V_SHARES_K ? 0 : StoredSmemV::BYTES);
  static constexpr int V_SIDE_BEGIN = K_SIDE_BEGIN + WARP_KEYS * K_SIDE_BYTES;
  static constexpr int STAGE_BYTES = (V_SIDE_BEGIN + (V_SHARES_K ? 0 : WARP_KEYS * V_SIDE_BYTES) + 127) / 128 * 128;
#else  // ATTN_KV_FORMAT
  using StoredSmemK = WarpSmemK<KvElem>;
  using StoredSmemV = WarpSmemV<KvElem>;
  static constexpr int STAGE_BYTES = StoredSmemK::BYTES + (V_SHARES_K ? 0 : StoredSmemV::BYTES);
#endif  // ATTN_KV_FORMAT
  static constexpr int WIDENED_BYTES =
      WIDEN_KEYS * WarpSmemK<WideElem>::BYTES + WIDEN_VALUES * WarpSmemV<WideElem>::BYTES;
  static constexpr int PIPELINE_BYTES = STAGES * STAGE_BYTES + WIDENED_BYTES;
  static_assert(WARP_KEYS <= 32 && 32 % WARP_KEYS == 0, "a lane looks up one key");
  // Keys of a run that is contiguous in memory (KvStep::contiguous).
  static constexpr int RUN = WARP_KEYS < 16 ? WARP_KEYS : 16;

  // How warps copy rows: LANES lanes copy a row, a chunk each, in as many passes as the row needs.
  template <class Tile>
  struct RowCopyLayout {
    static constexpr int CHUNK_BYTES = Tile::ROW_BYTES % 16 == 0 ? 16 : 8;
    static constexpr int CHUNKS = Tile::ROW_BYTES / CHUNK_BYTES;
    static constexpr int lanes() {
      int lanes = 2;
      while (lanes < 32 && (lanes < CHUNKS || 32 / lanes * ROW_WARPS > RUN)) lanes *= 2;
      return lanes;
    }
    static constexpr int LANES = lanes();
    static constexpr int ROWS_PER_INSTRUCTION = 32 / LANES * ROW_WARPS;
    static_assert(RUN % ROWS_PER_INSTRUCTION == 0, "a run is copied by whole instructions");
    static unsigned chunk() { return threadIdx.x % LANES; }
    // The row that this lane copies with the first instruction.
    static int row() { return threadIdx.x % (32 * ROW_WARPS) / LANES; }
  };

  const KernelParams& p_;
  const char* k_;  // this lane's first chunk of this head, at page 0, slot 0
  const char* v_;
#ifdef ATTN_KV_FORMAT
  const char* k_side_;  // the side data of this head, at page 0, slot 0
  const char* v_side_;
#endif  // ATTN_KV_FORMAT
  unsigned stages_;            // shared address of this warp's stages
  unsigned long long policy_;  // L2 eviction policy

 public:
  static constexpr int BYTES = KEY_WARPS * PIPELINE_BYTES;

  KvPipeline(const KernelParams& p, int kv_head, unsigned shared) : p_(p), policy_(evict_first_policy()) {
    k_ = reinterpret_cast<const char*>(static_cast<const KvElem*>(p.k.data) + kv_head * p.k.head) +
         RowCopyLayout<StoredSmemK>::chunk() * RowCopyLayout<StoredSmemK>::CHUNK_BYTES;
    v_ = reinterpret_cast<const char*>(static_cast<const KvElem*>(p.v.data) + kv_head * p.v.head) +
         RowCopyLayout<StoredSmemV>::chunk() * RowCopyLayout<StoredSmemV>::CHUNK_BYTES;
#ifdef ATTN_KV_FORMAT
    const KvSides& sides = kv_sides(p);
    k_side_ = static_cast<const char*>(sides.k.data) + kv_head * sides.k.head;
    v_side_ = static_cast<const char*>(sides.v.data) + kv_head * sides.v.head;
#endif  // ATTN_KV_FORMAT
    stages_ = shared + key_warp() * PIPELINE_BYTES;
  }

  // Index of this warp's pipeline, and of its first key within a step of the CTA.
  static int key_warp() { return threadIdx.x / (32 * ROW_WARPS); }
  static int first_key() { return key_warp() * WARP_KEYS; }

  // Synchronises the warps that share the pipeline.
  static void sync() {
    if constexpr (ROW_WARPS == 1)
      __syncwarp();
    else
      __syncthreads();
  }

  // Issues the copies of a step into a stage. `location`: that of the key which this lane looked up.
  void load_stage(int stage, KvStep step, KvLocation location) const {
    copy_rows(stored_keys(stage), k_, p_.k, step, location);
    if constexpr (!V_SHARES_K) copy_rows(stored_values(stage), v_, p_.v, step, location);
#ifdef ATTN_KV_FORMAT
    copy_sides<K_SIDE_BYTES>(stages_ + stage * STAGE_BYTES + K_SIDE_BEGIN, k_side_, kv_sides(p_).k, location);
    if constexpr (!V_SHARES_K)
      copy_sides<V_SIDE_BYTES>(stages_ + stage * STAGE_BYTES + V_SIDE_BEGIN, v_side_, kv_sides(p_).v, location);
#endif  // ATTN_KV_FORMAT
  }

  // The tiles that the MMAs read: after the K and V transforms, if there are any.
  WarpSmemK<KeyElem> keys(int stage) const {
    return {WIDEN_KEYS ? stages_ + STAGES * STAGE_BYTES : stored_keys(stage).base};
  }
  WarpSmemV<ValueElem> values(int stage) const {
#ifdef ATTN_KV_FORMAT
    if constexpr (V_SHARES_K) return {keys(stage).base};
#endif  // ATTN_KV_FORMAT
    return {WIDEN_VALUES ? stages_ + PIPELINE_BYTES - WarpSmemV<WideElem>::BYTES : stored_values(stage).base};
  }
  // The tiles as they were copied, in the element type of the cache.
  StoredSmemK stored_keys(int stage) const { return {stages_ + stage * STAGE_BYTES}; }
  StoredSmemV stored_values(int stage) const {
    return {stages_ + stage * STAGE_BYTES + (V_SHARES_K ? 0 : StoredSmemK::BYTES)};
  }

#ifdef ATTN_KV_FORMAT
  // The stored rows of a key and of its value.
  SharedCodes<StoredSmemK> key_codes(int stage, int key) const { return {stored_keys(stage), key}; }
  SharedCodes<StoredSmemV> value_codes(int stage, int key) const { return {stored_values(stage), key}; }
  SharedSide key_side(int stage, int key) const {
    return SharedSide(stages_ + stage * STAGE_BYTES + K_SIDE_BEGIN + key * K_SIDE_BYTES);
  }
  SharedSide value_side(int stage, int key) const {
    return SharedSide(stages_ + stage * STAGE_BYTES + V_SIDE_BEGIN + key * V_SIDE_BYTES);
  }

  // A stage into which no copy is in flight serves as scratch memory, or the decoded rows if they are larger.
  static constexpr int STAGE_SCRATCH_BYTES = STAGE_BYTES > WIDENED_BYTES ? STAGE_BYTES : WIDENED_BYTES;
  static constexpr int stage_scratch_offset(int key_warp, int stage) {
    return key_warp * PIPELINE_BYTES + (STAGE_BYTES > WIDENED_BYTES ? stage : STAGES) * STAGE_BYTES;
  }
#else  // ATTN_KV_FORMAT
  // A stage into which no copy is in flight serves as scratch memory.
  static constexpr int STAGE_SCRATCH_BYTES = STAGE_BYTES;
  static constexpr int stage_scratch_offset(int key_warp, int stage) {
    return key_warp * PIPELINE_BYTES + stage * STAGE_BYTES;
  }
#endif  // ATTN_KV_FORMAT

 private:
  template <class Tile>
  void copy_rows(Tile to, const char* data, const Strided& t, KvStep step, KvLocation location) const {
    using C = RowCopyLayout<Tile>;
    int row = C::row();
    unsigned chunk = Tile::offset(row, C::chunk() * C::CHUNK_BYTES);
    long long offset = key_offset<KV_PAGED>(t, location) * static_cast<int>(sizeof(KvElem));
    if (step.contiguous) {
      // a contiguous run: the location of the first key gives all the others
      long long stride = t.token * static_cast<int>(sizeof(KvElem));
#pragma unroll
      for (int first = 0; first < WARP_KEYS; first += RUN) {
        const char* from = data + __shfl_sync(ALL_LANES, offset, first) + row * stride;
#pragma unroll
        for (int i = first; i < first + RUN; i += C::ROWS_PER_INSTRUCTION) {
          copy_row(to, chunk, i, from);
          from += C::ROWS_PER_INSTRUCTION * stride;
        }
      }
    } else {
#pragma unroll 4
      for (int i = 0; i < WARP_KEYS; i += C::ROWS_PER_INSTRUCTION)
        copy_row(to, chunk, i, data + __shfl_sync(ALL_LANES, offset, row + i));
    }
  }

  // Copies this lane's chunks of the row that lies `rows` below the lane's first row.
  template <class Tile>
  void copy_row(Tile to, unsigned chunk, int rows, const char* from) const {
    using C = RowCopyLayout<Tile>;
#pragma unroll
    for (int first = 0; first < C::CHUNKS; first += C::LANES)
      if (first + C::LANES <= C::CHUNKS || first + C::chunk() < C::CHUNKS)
        copy<C::CHUNK_BYTES>(to.advance(chunk, rows, C::CHUNK_BYTES * first), from + C::CHUNK_BYTES * first);
  }

#ifdef ATTN_KV_FORMAT
  // Copies the side data of rows: a lane copies that of the key which it looked up.
  template <int BYTES>
  void copy_sides(unsigned to, const char* data, const Strided& t, KvLocation location) const {
    constexpr int CHUNK_BYTES = BYTES % 16 == 0 ? 16 : BYTES % 8 == 0 ? 8 : 4;
    static_assert(BYTES % CHUNK_BYTES == 0, "side data are whole words");
    int key = threadIdx.x % (32 * ROW_WARPS);
    if (BYTES == 0 || key >= WARP_KEYS) return;
    const char* from = data + key_offset<KV_PAGED>(t, location);
#pragma unroll 4
    for (int i = 0; i < BYTES; i += CHUNK_BYTES) copy<CHUNK_BYTES>(to + key * BYTES + i, from + i);
  }

#endif  // ATTN_KV_FORMAT
  template <int BYTES>
  void copy(unsigned to, const char* from) const {
#ifdef ATTN_KV_FORMAT
    if constexpr (BYTES == 4)
      cp_async_4(to, from);
    else
#endif  // ATTN_KV_FORMAT
    if constexpr (BYTES == 8)
      cp_async_8(to, from);
    else if (p_.read_once)
      cp_async_16(to, from, policy_);
    else
      cp_async_16(to, from);
  }
};
