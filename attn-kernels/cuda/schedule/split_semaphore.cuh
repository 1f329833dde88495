// Split-KV semaphores: the CTA that writes the last partial of a merge runs the merge. Partials are merged in the order
// of keys, so that the result does not depend on which CTA is last.
//
// One CTA reads partials no faster than their latency allows. So many partials merge in two steps: the last CTA of each
// group of neighbours merges the group into its first partial, and the last of these CTAs merges the groups.
#pragma once
#include "merge/groups.cuh"
#include "merge/merge_states.cuh"

// Called after this CTA has written one of `partials`: whether all are written, for a union those of earlier launches
// included. The last CTA resets the semaphore, that of the partial at row `owner`.
inline bool is_last_split(const KernelParams& p, MergedPartials partials, int owner, int kv_head) {
  __shared__ bool last;
  __syncthreads();
  if (threadIdx.x == 0) {
    unsigned* semaphore = p.split_semaphores + static_cast<long long>(owner / TILE_ROWS) * p.kv_heads + kv_head;
    last = semaphore_arrive(semaphore) + 1 == static_cast<unsigned>(partials.count);
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
  if constexpr (MIXED) return;
  // groups depend on the number of partials, and that on the rows of the Q tile
  int of_group = ROW_INVARIANT_MERGE ? 0 : lang::merge_groups::partials_of_group(partials.count);
  // a loop, so that the code of a merge exists once
#pragma unroll 1
  for (bool finalizes = of_group == 0;; finalizes = true) {
    MergedPartials merged = partials;
    int owner = partials.first;
    if (of_group > 0) {
      int rows = of_group * TILE_ROWS, groups = (partials.count + of_group - 1) / of_group;
      int group = (work.partial - partials.first) / rows;
      if (finalizes) {
        merged = {partials.first, groups, rows};
        owner += TILE_ROWS;  // the second partial is the first of no group, so that its semaphore is free
      } else {
        owner += group * rows;
        merged = {owner, min(of_group, partials.count - group * of_group)};
      }
    }
    if (!is_last_split(p, merged, owner, q_tile.kv_head)) return;
    Merger::run(p, variant, merged, finalizes, q_tile, shared);
    if (finalizes) return;
  }
}
