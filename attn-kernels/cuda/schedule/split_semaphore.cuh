// Split-KV semaphore: the CTA that writes the last partial of a merge runs the merge. Partials are merged in
// the order of keys, so that the result does not depend on which CTA is last.
#pragma once
#include "merge/merge_states.cuh"

// Called after this CTA has written its partial: whether all partials of the merge are written, for a union those of
// earlier launches included. The last CTA resets the semaphore.
inline bool is_last_split(const KernelParams& p, int merge, int count, int kv_head) {
  __shared__ bool last;
  __syncthreads();
  if (threadIdx.x == 0) {
    unsigned* semaphore = p.split_semaphores + static_cast<long long>(merge) * p.kv_heads + kv_head;
    last = semaphore_arrive(semaphore) + 1 == static_cast<unsigned>(count);
    if (last) *semaphore = 0;
  }
  __syncthreads();
  return last;
}

// The partials that an item's merge reads. A mixed launch merges in a kernel of its own: a CTA can end with rows of
// several requests, which belong to several merges.
inline MergedPartials merged_partials(const KernelParams& p, const WorkItem& work) {
  if constexpr (MIXED) return {};
  return {p.merges[work.merge].first, p.merges[work.merge].count};
}

// Called after this CTA has written an item's partial: merges if it is the last. All threads of the CTA call it;
// `shared` must be free.
template <class Merger>
inline void merge_if_last(const KernelParams& p, const Variant& variant, const WorkItem& work, MergedPartials partials,
                          const QTile& q_tile, typename Merger::Shared& shared) {
  if constexpr (!MIXED)
    if (is_last_split(p, work.merge, partials.count, q_tile.kv_head))
      Merger::run(p, variant, partials, q_tile, shared);
}
