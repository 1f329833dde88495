// Who writes the last partial state of a merge runs it. States are merged in the order of slots, so that who is last changes no bit.
#pragma once
#include "merge/merge_states.cuh"

// Called when this CTA's partial state is written: whether those of all other items of the merge are there too, of a union those of
// the launches before this one as well. Sets the counter back.
inline bool arrived_last(const KernelParams& p, int merge, int count, int kv_head) {
  __shared__ bool last;
  __syncthreads();
  if (threadIdx.x == 0) {
    unsigned* arrivals = p.arrivals + static_cast<long long>(merge) * p.kv_heads + kv_head;
    last = count_arrival(arrivals) + 1 == static_cast<unsigned>(count);
    if (last) *arrivals = 0;
  }
  __syncthreads();
  return last;
}

// The states that an item's merge takes, if there is one for all of its rows.
inline Slots slots_of(const KernelParams& p, const WorkItem& work) { return {p.merges[work.merge].first, p.merges[work.merge].count}; }
inline Slots slots_of(const KernelParams&, const MixedItem&) { return {}; }

// When this CTA's partial state of an item is written: its merge, if it is the last. All threads of the CTA call it, and `shared` is free.
template <class Merger>
inline void merge_arrived(const KernelParams& p, const Variant& variant, const WorkItem& work, Slots slots, const QueryBlock& block,
                          typename Merger::Shared& shared) {
  if (arrived_last(p, work.merge, slots.count, block.kv_head)) Merger::run(p, variant, slots, block, shared);
}

// After a mixed launch merging is a launch of its own: a CTA may end with rows of many requests, each of a merge of its own.
template <class Merger>
inline void merge_arrived(const KernelParams&, const Variant&, const MixedItem&, Slots, const QueryBlock&, typename Merger::Shared&) {}
