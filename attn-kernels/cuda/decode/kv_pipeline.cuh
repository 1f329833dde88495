// The cp.async pipeline that brings K and V tiles from global into shared memory in decode.
// Every warp owns a pipeline of STAGES stages, each with a tile of WARP_KEYS keys and their values. It never waits for
// another warp.
#pragma once

#include "memory/half_row.cuh"
#include "schedule/kv_load_iter.cuh"
#include "merge/partial.cuh"
#include "memory/row_tile.cuh"

constexpr int THREADS = WARPS * 32;
static_assert(STEP_KEYS == WARPS * WARP_KEYS, "a step of the CTA is one of every warp");

// A K or V transform writes FP8 rows as f16 into a separate buffer and rewrites 16-bit rows in place.
constexpr bool WIDEN_KEYS = IS_FP8<KvElem> && Variant::HAS_KEY_TRANSFORM;
constexpr bool WIDEN_VALUES = IS_FP8<KvElem> && Variant::HAS_VALUE_TRANSFORM;

// Element types of the MMA operands K and V. P has the type that V takes.
using KeyElem = Choose<Variant::HAS_KEY_TRANSFORM, f16, KvElem>::type;
using ValueElem = Choose<WIDEN_VALUES, f16, KvElem>::type;

// The K and V tiles of a warp's step. With V_SHARES_K the values are the first elements of the rows of K.
template <class E>
using WarpSmemK = RowTile<E, WARP_KEYS, HEAD_DIM_QK>;
template <class E>
using WarpSmemV = RowTile<E, WARP_KEYS, V_SHARES_K ? HEAD_DIM_QK : HEAD_DIM_VO>;
static_assert(!V_SHARES_K || !(Variant::HAS_KEY_TRANSFORM || Variant::HAS_VALUE_TRANSFORM),
              "K and V cannot share rows that a hook rewrites");

class KvPipeline {
  using StoredSmemK = WarpSmemK<KvElem>;
  using StoredSmemV = WarpSmemV<KvElem>;
  static constexpr int STAGE_BYTES = StoredSmemK::BYTES + (V_SHARES_K ? 0 : StoredSmemV::BYTES);
  static constexpr int WIDENED_BYTES = WIDEN_KEYS * WarpSmemK<f16>::BYTES + WIDEN_VALUES * WarpSmemV<f16>::BYTES;
  static constexpr int WARP_BYTES = STAGES * STAGE_BYTES + WIDENED_BYTES;
  static_assert(WARP_KEYS <= 32 && WARP_KEYS % 16 == 0, "a lane looks up one key");

  // How a warp copies rows: LANES lanes copy a row, 16 bytes each, in as many passes as the row needs.
  template <class Tile>
  struct RowCopyLayout {
    static constexpr int CHUNKS = Tile::ROW_BYTES / 16;  // 16-byte chunks of a row
    static constexpr int lanes() {
      int lanes = 2;
      while (lanes < CHUNKS && lanes < 32) lanes *= 2;
      return lanes;
    }
    static constexpr int LANES = lanes();
    static constexpr int ROWS_PER_INSTRUCTION = 32 / LANES;
    static unsigned chunk() { return threadIdx.x % LANES; }
  };

  const KernelParams& p_;
  const char* k_;  // this lane's first chunk of this head, at page 0, slot 0
  const char* v_;
  unsigned warp_smem_;         // shared address of this warp's stages
  unsigned long long policy_;  // L2 eviction policy

 public:
  static constexpr int BYTES = WARPS * WARP_BYTES;

  KvPipeline(const KernelParams& p, int kv_head, unsigned shared) : p_(p), policy_(evict_first_policy()) {
    k_ = reinterpret_cast<const char*>(static_cast<const KvElem*>(p.k.data) + kv_head * p.k.head) +
         RowCopyLayout<StoredSmemK>::chunk() * 16;
    v_ = reinterpret_cast<const char*>(static_cast<const KvElem*>(p.v.data) + kv_head * p.v.head) +
         RowCopyLayout<StoredSmemV>::chunk() * 16;
    warp_smem_ = shared + threadIdx.x / 32 * WARP_BYTES;
  }

  // Index of this warp's first key within a step of the CTA.
  static int first_key() { return threadIdx.x / 32 * WARP_KEYS; }

  // Issues the copies of a step into a stage. `location`: that of the key which this lane looked up.
  void load_stage(int stage, KvStep step, KvLocation location) const {
    copy_rows(stored_keys(stage), k_, p_.k, step, location);
    if constexpr (!V_SHARES_K) copy_rows(stored_values(stage), v_, p_.v, step, location);
  }

  // The tiles that the MMAs read: after the K and V transforms, if there are any.
  WarpSmemK<KeyElem> keys(int stage) const {
    return {WIDEN_KEYS ? warp_smem_ + STAGES * STAGE_BYTES : stored_keys(stage).base};
  }
  WarpSmemV<ValueElem> values(int stage) const {
    return {WIDEN_VALUES ? warp_smem_ + WARP_BYTES - WarpSmemV<f16>::BYTES : stored_values(stage).base};
  }
  // The tiles as they were copied, in the element type of the cache.
  StoredSmemK stored_keys(int stage) const { return {warp_smem_ + stage * STAGE_BYTES}; }
  StoredSmemV stored_values(int stage) const {
    return {warp_smem_ + stage * STAGE_BYTES + (V_SHARES_K ? 0 : StoredSmemK::BYTES)};
  }

  // A stage into which no copy is in flight serves as scratch memory.
  static constexpr int STAGE_SCRATCH_BYTES = STAGE_BYTES;
  static constexpr int stage_scratch_offset(int warp, int stage) { return warp * WARP_BYTES + stage * STAGE_BYTES; }

 private:
  template <class Tile>
  void copy_rows(Tile to, const char* data, const Strided& t, KvStep step, KvLocation location) const {
    using C = RowCopyLayout<Tile>;
    int row = threadIdx.x % 32 / C::LANES;  // the row that this lane copies with the first instruction
    unsigned chunk = Tile::offset(row, C::chunk() * 16);
    long long offset = key_offset<KV_PAGED>(t, location) * static_cast<int>(sizeof(KvElem));
    if (step.contiguous) {
      // 16 contiguous keys: the location of the first gives all the others.
      long long stride = t.token * static_cast<int>(sizeof(KvElem));
#pragma unroll
      for (int first = 0; first < WARP_KEYS; first += 16) {
        const char* from = data + __shfl_sync(ALL_LANES, offset, first) + row * stride;
#pragma unroll
        for (int i = first; i < first + 16; i += C::ROWS_PER_INSTRUCTION) {
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
        copy(to.advance(chunk, rows, 16 * first), from + 16 * first);
  }

  void copy(unsigned to, const char* from) const {
    if (p_.read_once)
      cp_async_16(to, from, policy_);
    else
      cp_async_16(to, from);
  }
};
