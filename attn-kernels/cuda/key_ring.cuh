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
  const SpanKeys& span_;
  const int* pages_;   // the request's row of the page table
  const KvElem* k_;    // this lane's chunk of this head, at page 0, slot 0
  const KvElem* v_;
  unsigned chunks_;    // this thread's first chunk in shared memory
  int team_;

  // The threads of a warp hold neighbouring chunks: no bank conflicts.
  static constexpr int CHUNK_STRIDE = THREADS * CHUNK_BYTES;
  static unsigned chunk(int stage, int value, int i) { return ((stage * 2 + value) * TEAM_KEYS + i) * CHUNK_STRIDE; }

  int key(KeyStep step, int i) const { return step.key + i * TEAMS + team_; }

 public:
  static constexpr int BYTES = STAGES * 2 * TEAM_KEYS * CHUNK_STRIDE;

  KeyRing(const KernelParams& p, const QueryBlock& block, const SpanKeys& span, void* shared)
      : p_(p), request_(block.request), span_(span), team_(threadIdx.x / ROW_LANES) {
    pages_ = KV_PAGED ? page_row(p, request_) : nullptr;
    k_ = static_cast<const KvElem*>(p.k.data) + block.kv_head * p.k.head + Values::first();
    v_ = static_cast<const KvElem*>(p.v.data) + block.kv_head * p.v.head + Values::first();
    chunks_ = shared_address(shared) + threadIdx.x * CHUNK_BYTES;
  }

  // Where the keys of a step are: lane i of a team asks for the i-th. To be asked a step before `fetch`, which hides the
  // page table.
  KeyPlace find(KeyStep& step) const {
    int position = span_.position(key(step, Values::lane() % TEAM_KEYS));
    if constexpr (Variant::HAS_KV_LIST) step.position = position;
    return find_key<KV_PAGED>(p_, request_, pages_, span_.existing(position));
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

  // Position of the i-th key of this thread's team in a step of which `find` was asked; see SpanKeys::exists. For all lanes
  // together.
  int position(KeyStep step, int i) const {
    return Variant::HAS_KV_LIST ? __shfl_sync(ALL_LANES, step.position, i, ROW_LANES) : key(step, i);
  }
  bool exists(int position) const { return span_.exists(position); }
  // Index word of the i-th key or value; the key that is loaded where there is none.
  KvIndex index(KeyStep step, int i, int kv_head) const { return kv_index(request_, kv_head, span_.existing(position(step, i))); }

  Values key(int stage, int i) const { return read(chunk(stage, 0, i)); }
  Values value(int stage, int i) const { return read(chunk(stage, 1, i)); }

 private:
  Values read(unsigned offset) const {
    Values row;
    unpack<KvElem>(row, load_shared_16(chunks_ + offset));
    return row;
  }
};
