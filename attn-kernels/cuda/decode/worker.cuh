// What a decode CTA does: few packed query rows against many keys. A CTA is one worker for one KV head, and runs the worker's items one
// after the other, in WARPS warps with SMEM_BYTES of dynamic shared memory.
//
// Decode moves bytes: each key is read once and used for a few rows. So all that matters is that loads never stop: warps own
// disjoint keys, their loads run ahead over the borders of items, and they meet only where an item ends and their states
// merge, in a fixed order.
//
// Besides the cell block of every template: WARP_KEYS and STEP_KEYS, keys of a warp and of the CTA in one step of the ring.
#pragma once

#include "schedule/split_semaphore.cuh"
#include "decode/swap_ab_mma.cuh"

using Merger = RowMerger<THREADS, 8>;
// A merge takes the place of queries, which have been read.
constexpr int MERGE_BYTES = sizeof(Merger::Shared);
constexpr int QUERIES_BYTES = QueryRows::BYTES > MERGE_BYTES ? QueryRows::BYTES : MERGE_BYTES;
constexpr int SMEM_BYTES = KeyTiles::BYTES + QUERIES_BYTES + SharedStates::MD_BYTES;

// Writes the output of an item's rows, or their partial state: what the warps have of each row, merged in their order.
inline void write_rows(const KernelParams& p, const Variant& variant, const QueryBlock& block, int slot, const SharedStates& states) {
  int team = threadIdx.x / ROW_LANES;
#pragma unroll 1
  for (int first = 0; first < block.rows; first += THREADS / ROW_LANES) {
    int r = block.existing(first + team);
    bool exists = block.has(first + team);
    PartialRow state;
#pragma unroll
    for (int warp = 0; warp < WARPS; ++warp)
      state.absorb(load_partial([&](int dim) { return states.sums(warp, r, dim); }, states.md(warp, r)));
    if (slot < 0) {
      write_output(p, variant, state, block.at(p, r), exists);
    } else if (exists) {
      long long index = partial_index(p, slot, block.kv_head, r);
      store_partial(state, p.partial_o + index * VALUE_DIM, p.partial_md + index);
    }
  }
}

// `ring`: the dynamic shared memory, from a multiple of 128 bytes on.
inline void run_worker(const KernelParams& p, const Variant& variant, int worker, int kv_head, unsigned char* ring) {
  unsigned char* shared_queries = ring + KeyTiles::BYTES;
  QueryRows queries = {shared_address(shared_queries)};
  float2* maxima = reinterpret_cast<float2*>(shared_queries + QUERIES_BYTES);

  Work::Start start = Work::workers(p)[worker];
  int item = start.first, end = start.end;
  if (item == end) return;
  KeyFeed feed(p, variant, kv_head, start);
  KeyTiles keys(p, kv_head, shared_address(ring));

  // Loads are STAGES - 1 steps ahead of the arithmetic, page numbers one more.
  KeyStep ready[STAGES];
  KeyPlace places[STAGES];
  // What may be long is in the code once; places are looked up where all of them are known, so that they arrive together.
#pragma unroll 1
  for (int i = 0; i < STAGES; ++i) {
#pragma unroll
    for (int j = 0; j + 1 < STAGES; ++j) {
      ready[j] = ready[j + 1];
      places[j] = places[j + 1];
    }
    ready[STAGES - 1] = feed.next();
    places[STAGES - 1] = feed.find(ready[STAGES - 1], keys.first_key());
  }
#pragma unroll
  for (KeyPlace& place : places) place = look_up<KV_PAGED>(p, place);
#pragma unroll
  for (int i = 0; i + 1 < STAGES; ++i) {
    if (ready[i].item < end) keys.fetch(i, ready[i], places[i]);
    copy_async_commit();
  }
  KeyStep ahead = ready[STAGES - 1];
  KeyPlace place = places[STAGES - 1];

  Work::Item work = start.item;
  int stage = 0;
#pragma unroll 1
  while (item < end) {
    bool merges = work.partial >= 0;
    Slots slots = {};
    if (merges) slots = slots_of(p, work);  // long before they are asked for
    QueryBlock block(work, kv_head);
    SpanKeys span(p, variant, block, work);
    load_queries(p, variant, block, queries);
    __syncthreads();  // queries are there, and the states of the item before have been read
    TensorRows rows(p, variant, block, span, queries);
#pragma unroll 1
    while (ready[0].item == item) {
      ready[STAGES - 1] = ahead;
      if (ahead.item < end) {
        keys.fetch(stage == 0 ? STAGES - 1 : stage - 1, ahead, place);  // the stage of the step before this one
        ahead = feed.next();
        place = look_up<KV_PAGED>(p, feed.find(ahead, keys.first_key()));
      }
      copy_async_commit();  // empty at the end, so that the count of groups stays
      copy_async_wait<STAGES - 1>();
      __syncwarp();  // what any lane waited for has arrived
      rows.step(keys, stage, ready[0]);
      __syncwarp();  // the stage has been read
#pragma unroll
      for (int i = 0; i + 1 < STAGES; ++i) ready[i] = ready[i + 1];
      stage = stage + 1 == STAGES ? 0 : stage + 1;
    }

    SharedStates states = {ring, stage == 0 ? STAGES - 1 : stage - 1, maxima};
    rows.store(states);
    __syncthreads();  // every warp's states are there, and queries have been read
    write_rows(p, variant, block, work.partial, states);
    if (merges) merge_arrived<Merger>(p, variant, work, slots, block, *reinterpret_cast<Merger::Shared*>(shared_queries));
    if (++item < end) work = Work::items(p)[item];
  }
}
