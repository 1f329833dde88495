// Who writes the last partial state of a merge runs it. States are merged in the order of slots, so that who is last changes no bit.
#pragma once
#include "merge_rows.cuh"

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

// Of a mixed launch: those of the merges that its rows are of for which it is the last.
template <class Merger>
inline void merge_arrived(const KernelParams& p, const Variant& variant, const MixedItem& work, Slots, const QueryBlock& block,
                          typename Merger::Shared& shared) {
  __shared__ unsigned last[WARPS];  // a bit a merge, of as many merges as there are threads
  const MixedMerge* merges = mixed(p).merges;
  int warp = threadIdx.x / 32, end = work.merge + work.merges;
#pragma unroll 1
  for (int first = work.merge; first < end; first += 32 * WARPS) {
    __syncthreads();  // states are written, and those of `last` before have been asked
    int mine = first + threadIdx.x;
    bool is_last = false;
    if (mine < end) {
      unsigned* arrivals = p.arrivals + static_cast<long long>(mine) * p.kv_heads + block.kv_head;
      is_last = count_arrival(arrivals) + 1 == static_cast<unsigned>(merges[mine].count);
      if (is_last) *arrivals = 0;
    }
    unsigned mask = __ballot_sync(ALL_LANES, is_last);
    if (threadIdx.x % 32 == 0) last[warp] = mask;
    __syncthreads();
#pragma unroll 1
    for (int w = 0; w < WARPS; ++w)
#pragma unroll 1
      for (unsigned waiting = last[w]; waiting; waiting &= waiting - 1) {
        MixedMerge merge = merges[first + 32 * w + __ffs(waiting) - 1];
        Merger::run(p, variant, {merge.first, merge.count}, QueryBlock(merge, block.kv_head), shared);
      }
  }
}
