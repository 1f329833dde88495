// Keys and values on their way from global memory to the registers of a decode CTA: a ring of STAGES steps in shared memory.
// Each thread copies exactly the bytes that it will itself read back, so nothing but its own copies need be waited for.
#pragma once

#include "key_walk.cuh"
#include "partial.cuh"
#include "ptx.cuh"

constexpr int TEAMS = WARPS * 32 / ROW_LANES;  // a team of lanes holds a key together; teams own disjoint keys
constexpr int STEP_KEYS = TEAMS * TEAM_KEYS;   // of the CTA in a step
constexpr int THREADS = WARPS * 32;
constexpr int CHUNK_BYTES = 16;

class KeyRing {
  const KernelParams& p_;
  const Request& request_;
  const int* pages_;   // the request's row of the page table
  const KvElem* k_;    // this lane's chunk of this head, at page 0, slot 0
  const KvElem* v_;
  unsigned chunks_;    // this thread's first chunk in shared memory
  int kv_end_;
  int team_;

  // The threads of a warp hold neighbouring chunks: no bank conflicts.
  static constexpr int CHUNK_STRIDE = THREADS * CHUNK_BYTES;
  static unsigned chunk(int stage, int value, int i) { return ((stage * 2 + value) * TEAM_KEYS + i) * CHUNK_STRIDE; }

 public:
  static constexpr int BYTES = STAGES * 2 * TEAM_KEYS * CHUNK_STRIDE;

  KeyRing(const KernelParams& p, const Request& request, int kv_head, int kv_end, void* shared)
      : p_(p), request_(request), kv_end_(kv_end), team_(threadIdx.x / ROW_LANES) {
    pages_ = KV_PAGED ? page_row(p, request) : nullptr;
    k_ = static_cast<const KvElem*>(p.k.data) + kv_head * p.k.head + Values::first();
    v_ = static_cast<const KvElem*>(p.v.data) + kv_head * p.v.head + Values::first();
    chunks_ = shared_address(shared) + threadIdx.x * CHUNK_BYTES;
  }

  // Position of the i-th key of this thread's team in a step; it may lie past the end.
  int kv_pos(KeyStep step, int i) const { return step.kv_pos + i * TEAMS + team_; }

  // Where the keys of a step are: lane i of a team asks for the i-th. To be asked a step before `fetch`, which hides the
  // page table. Keys past the end repeat the last one: the mask hides their logits, and their values stay finite.
  KeyPlace find(KeyStep step) const {
    return find_key<KV_PAGED>(p_, request_, pages_, min(kv_pos(step, Values::lane() % TEAM_KEYS), kv_end_ - 1));
  }

  // Starts the copies of a step.
  void fetch(int stage, KeyPlace place) const {
    long long k = key_offset<KV_PAGED>(p_.k, place), v = key_offset<KV_PAGED>(p_.v, place);
#pragma unroll
    for (int i = 0; i < TEAM_KEYS; ++i) {
      copy_async_16(chunks_ + chunk(stage, 0, i), k_ + __shfl_sync(ALL_LANES, k, i, ROW_LANES));
      copy_async_16(chunks_ + chunk(stage, 1, i), v_ + __shfl_sync(ALL_LANES, v, i, ROW_LANES));
    }
  }

  Values key(int stage, int i) const { return read(chunk(stage, 0, i)); }
  Values value(int stage, int i) const { return read(chunk(stage, 1, i)); }

 private:
  Values read(unsigned offset) const {
    Values row;
    unpack<KvElem>(row, load_shared_16(chunks_ + offset));
    return row;
  }
};
