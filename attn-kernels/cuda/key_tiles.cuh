// Keys and values on their way from global memory to the tensor cores of a decode CTA: each warp has a ring of STAGES steps of its
// own in shared memory, WARP_KEYS keys and their values a step, and never waits for another warp.
#pragma once

#include "halves.cuh"
#include "key_feed.cuh"
#include "partial.cuh"
#include "row_tile.cuh"

constexpr int THREADS = WARPS * 32;
static_assert(STEP_KEYS == WARPS * WARP_KEYS, "a step of the CTA is one of every warp");

// fp8 rows that a hook rewrites become f16 in a place of their own; 16-bit ones stay where they are.
constexpr bool KEYS_MOVE = IS_FP8<KvElem> && Variant::HAS_KEY_TRANSFORM;
constexpr bool VALUES_MOVE = IS_FP8<KvElem> && Variant::HAS_VALUE_TRANSFORM;

// What tensor cores are given: of keys, and of values and weights.
using KeyElem = Choose<Variant::HAS_KEY_TRANSFORM, f16, KvElem>::type;
using ValueElem = Choose<VALUES_MOVE, f16, KvElem>::type;

// Keys, or values, of a warp's step.
template <class E>
using StepRows = RowTile<E, WARP_KEYS>;

class KeyTiles {
  using Stored = StepRows<KvElem>;
  static constexpr int STAGE_BYTES = 2 * Stored::BYTES;
  static constexpr int MOVED_BYTES = (KEYS_MOVE + VALUES_MOVE) * StepRows<f16>::BYTES;
  static constexpr int WARP_BYTES = STAGES * STAGE_BYTES + MOVED_BYTES;
  static constexpr int CHUNKS = Stored::ROW_BYTES / 16;  // of a row
  static constexpr int ROWS_AT_ONCE = 32 / CHUNKS;       // that a warp copies with one instruction
  static_assert(WARP_KEYS <= 32 && WARP_KEYS % 16 == 0 && 16 % ROWS_AT_ONCE == 0, "a lane looks up one key");

  const KernelParams& p_;
  const char* k_;  // this lane's chunk of this head, at page 0, slot 0
  const char* v_;
  unsigned ring_;              // this warp's
  unsigned long long policy_;  // of the second-level cache

 public:
  static constexpr int BYTES = WARPS * WARP_BYTES;

  KeyTiles(const KernelParams& p, int kv_head, unsigned shared) : p_(p), policy_(evict_first_policy()) {
    k_ = reinterpret_cast<const char*>(static_cast<const KvElem*>(p.k.data) + kv_head * p.k.head) + threadIdx.x % CHUNKS * 16;
    v_ = reinterpret_cast<const char*>(static_cast<const KvElem*>(p.v.data) + kv_head * p.v.head) + threadIdx.x % CHUNKS * 16;
    ring_ = shared + threadIdx.x / 32 * WARP_BYTES;
  }

  // Number in a step of this warp's first key.
  static int first_key() { return threadIdx.x / 32 * WARP_KEYS; }

  // Starts the copies of a step. `mine`: where the key is that this lane looked up.
  void fetch(int stage, KeyStep step, KeyPlace mine) const {
    copy_rows(stored_keys(stage), k_, p_.k, step, mine);
    copy_rows(stored_values(stage), v_, p_.v, step, mine);
  }

  StepRows<KeyElem> keys(int stage) const { return {KEYS_MOVE ? ring_ + STAGES * STAGE_BYTES : stored_keys(stage).base}; }
  StepRows<ValueElem> values(int stage) const {
    return {VALUES_MOVE ? ring_ + WARP_BYTES - StepRows<f16>::BYTES : stored_values(stage).base};
  }
  Stored stored_keys(int stage) const { return {ring_ + stage * STAGE_BYTES}; }
  Stored stored_values(int stage) const { return {ring_ + stage * STAGE_BYTES + Stored::BYTES}; }

  // A stage of a warp, as memory for something else while nothing is copied into it.
  static constexpr int SPARE_BYTES = STAGE_BYTES;
  static constexpr int spare(int warp, int stage) { return warp * WARP_BYTES + stage * STAGE_BYTES; }

 private:
  void copy_rows(Stored to, const char* data, const Strided& t, KeyStep step, KeyPlace mine) const {
    int row = threadIdx.x % 32 / CHUNKS;  // this lane's, of those of the first instruction
    unsigned chunk = Stored::offset(row, threadIdx.x % CHUNKS * 16);
    long long offset = key_offset<KV_PAGED>(t, mine) * static_cast<int>(sizeof(KvElem));
    if (step.in_line) {
      // Of 16 keys in a line, where the first is says where all are.
      long long stride = t.token * static_cast<int>(sizeof(KvElem));
#pragma unroll
      for (int first = 0; first < WARP_KEYS; first += 16) {
        const char* from = data + __shfl_sync(ALL_LANES, offset, first) + row * stride;
#pragma unroll
        for (int i = first; i < first + 16; i += ROWS_AT_ONCE) {
          copy(to.behind(chunk, i, 0), from);
          from += ROWS_AT_ONCE * stride;
        }
      }
    } else {
#pragma unroll 4
      for (int i = 0; i < WARP_KEYS; i += ROWS_AT_ONCE) copy(to.behind(chunk, i, 0), data + __shfl_sync(ALL_LANES, offset, row + i));
    }
  }

  void copy(unsigned to, const char* from) const {
    if (p_.read_once)
      copy_async_16(to, from, policy_);
    else
      copy_async_16(to, from);
  }
};
