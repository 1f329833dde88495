// Keys and values on their way from global memory to the tensor cores of a decode CTA: each warp has a ring of STAGES steps of its
// own in shared memory, WARP_KEYS keys and their values a step, and never waits for another warp.
#pragma once

#include "memory/half_row.cuh"
#include "schedule/kv_load_iter.cuh"
#include "merge/partial.cuh"
#include "memory/row_tile.cuh"

constexpr int THREADS = WARPS * 32;
static_assert(STEP_KEYS == WARPS * WARP_KEYS, "a step of the CTA is one of every warp");

// fp8 rows that a hook rewrites become f16 in a place of their own; 16-bit ones stay where they are.
constexpr bool KEYS_MOVE = IS_FP8<KvElem> && Variant::HAS_KEY_TRANSFORM;
constexpr bool VALUES_MOVE = IS_FP8<KvElem> && Variant::HAS_VALUE_TRANSFORM;

// What tensor cores are given: of keys, and of values and weights.
using KeyElem = Choose<Variant::HAS_KEY_TRANSFORM, f16, KvElem>::type;
using ValueElem = Choose<VALUES_MOVE, f16, KvElem>::type;

// Keys of a warp's step, and values: where these are the first elements of the keys, in the rows of keys.
template <class E>
using StepKeys = RowTile<E, WARP_KEYS, HEAD_DIM>;
template <class E>
using StepValues = RowTile<E, WARP_KEYS, VALUES_OF_KEYS ? HEAD_DIM : VALUE_DIM>;
static_assert(!VALUES_OF_KEYS || !(Variant::HAS_KEY_TRANSFORM || Variant::HAS_VALUE_TRANSFORM), "rows that hooks rewrite are not shared");

class KeyTiles {
  using StoredKeys = StepKeys<KvElem>;
  using StoredValues = StepValues<KvElem>;
  static constexpr int STAGE_BYTES = StoredKeys::BYTES + (VALUES_OF_KEYS ? 0 : StoredValues::BYTES);
  static constexpr int MOVED_BYTES = KEYS_MOVE * StepKeys<f16>::BYTES + VALUES_MOVE * StepValues<f16>::BYTES;
  static constexpr int WARP_BYTES = STAGES * STAGE_BYTES + MOVED_BYTES;
  static_assert(WARP_KEYS <= 32 && WARP_KEYS % 16 == 0, "a lane looks up one key");

  // How a warp copies rows: LANES lanes take a row, 16 bytes each, in as many passes as it takes.
  template <class Rows>
  struct Copy {
    static constexpr int CHUNKS = Rows::ROW_BYTES / 16;  // of a row
    static constexpr int lanes() {
      int lanes = 2;
      while (lanes < CHUNKS && lanes < 32) lanes *= 2;
      return lanes;
    }
    static constexpr int LANES = lanes();
    static constexpr int AT_ONCE = 32 / LANES;  // rows, with one instruction
    static unsigned chunk() { return threadIdx.x % LANES; }
  };

  const KernelParams& p_;
  const char* k_;  // this lane's chunk of this head, at page 0, slot 0
  const char* v_;
  unsigned ring_;              // this warp's
  unsigned long long policy_;  // of the second-level cache

 public:
  static constexpr int BYTES = WARPS * WARP_BYTES;

  KeyTiles(const KernelParams& p, int kv_head, unsigned shared) : p_(p), policy_(evict_first_policy()) {
    k_ = reinterpret_cast<const char*>(static_cast<const KvElem*>(p.k.data) + kv_head * p.k.head) + Copy<StoredKeys>::chunk() * 16;
    v_ = reinterpret_cast<const char*>(static_cast<const KvElem*>(p.v.data) + kv_head * p.v.head) + Copy<StoredValues>::chunk() * 16;
    ring_ = shared + threadIdx.x / 32 * WARP_BYTES;
  }

  // Number in a step of this warp's first key.
  static int first_key() { return threadIdx.x / 32 * WARP_KEYS; }

  // Starts the copies of a step. `mine`: where the key is that this lane looked up.
  void fetch(int stage, KeyStep step, KeyPlace mine) const {
    copy_rows(stored_keys(stage), k_, p_.k, step, mine);
    if constexpr (!VALUES_OF_KEYS) copy_rows(stored_values(stage), v_, p_.v, step, mine);
  }

  StepKeys<KeyElem> keys(int stage) const { return {KEYS_MOVE ? ring_ + STAGES * STAGE_BYTES : stored_keys(stage).base}; }
  StepValues<ValueElem> values(int stage) const {
    return {VALUES_MOVE ? ring_ + WARP_BYTES - StepValues<f16>::BYTES : stored_values(stage).base};
  }
  StoredKeys stored_keys(int stage) const { return {ring_ + stage * STAGE_BYTES}; }
  StoredValues stored_values(int stage) const { return {ring_ + stage * STAGE_BYTES + (VALUES_OF_KEYS ? 0 : StoredKeys::BYTES)}; }

  // A stage of a warp, as memory for something else while nothing is copied into it.
  static constexpr int SPARE_BYTES = STAGE_BYTES;
  static constexpr int spare(int warp, int stage) { return warp * WARP_BYTES + stage * STAGE_BYTES; }

 private:
  template <class Rows>
  void copy_rows(Rows to, const char* data, const Strided& t, KeyStep step, KeyPlace mine) const {
    using C = Copy<Rows>;
    int row = threadIdx.x % 32 / C::LANES;  // this lane's, of those of the first instruction
    unsigned chunk = Rows::offset(row, C::chunk() * 16);
    long long offset = key_offset<KV_PAGED>(t, mine) * static_cast<int>(sizeof(KvElem));
    if (step.in_line) {
      // Of 16 keys in a line, where the first is says where all are.
      long long stride = t.token * static_cast<int>(sizeof(KvElem));
#pragma unroll
      for (int first = 0; first < WARP_KEYS; first += 16) {
        const char* from = data + __shfl_sync(ALL_LANES, offset, first) + row * stride;
#pragma unroll
        for (int i = first; i < first + 16; i += C::AT_ONCE) {
          copy_row(to, chunk, i, from);
          from += C::AT_ONCE * stride;
        }
      }
    } else {
#pragma unroll 4
      for (int i = 0; i < WARP_KEYS; i += C::AT_ONCE) copy_row(to, chunk, i, data + __shfl_sync(ALL_LANES, offset, row + i));
    }
  }

  // This lane's chunks of a row that is `rows` behind its first.
  template <class Rows>
  void copy_row(Rows to, unsigned chunk, int rows, const char* from) const {
    using C = Copy<Rows>;
#pragma unroll
    for (int first = 0; first < C::CHUNKS; first += C::LANES)
      if (first + C::LANES <= C::CHUNKS || first + C::chunk() < C::CHUNKS) copy(to.behind(chunk, rows, 16 * first), from + 16 * first);
  }

  void copy(unsigned to, const char* from) const {
    if (p_.read_once)
      copy_async_16(to, from, policy_);
    else
      copy_async_16(to, from);
  }
};
