// Dynamic persistent tile scheduler of the sm_90 kernel (FlashAttention-3): a CTA's first work tile is its index, later
// ones come from an atomic ticket counter. The next work item is prefetched into shared memory while the current one is
// computed. In a mixed launch the CTAs that decode first join late: they take their first work tile by ticket, too.
//
// The CTAs of a cluster must agree on their work tiles, so that clusters take them by index.
#pragma once
#include "prefill/sm90/pipeline.cuh"

// By one thread. atom.inc instead of atom.add: ptxas aggregates an add over the lanes, and waits for its result at
// once.
inline unsigned ticket_fetch_inc(unsigned* counter) {
  unsigned before;
  asm volatile("atom.relaxed.gpu.global.inc.u32 %0, [%1], 0x7fffffff;" : "=r"(before) : "l"(counter) : "memory");
  return before;
}

// CTAs that join late: those with the lowest indices.
inline unsigned late_ctas(const KernelParams& p) {
  if constexpr (MIXED) return mixed(p).decode_ctas;
  return 0;
}
inline const WorkItem* prefill_items(const KernelParams& p) {
  if constexpr (MIXED) return mixed(p).prefill;
  return p.items;
}

// One thread of the producer warpgroup fetches work. The two counters (tickets, and CTAs that are done) are 0 between
// launches.
class TileScheduler {
  const KernelParams& p_;
  const Sm90Params& w_;
  const Pipeline& pipeline_;
  unsigned work_tiles_ = w_.items * p_.kv_heads;
  bool is_scheduler_ = is_leader_of(ProducerWarp::SCHEDULE),
       is_dynamic_ = CLUSTER_CTAS == 1 && (MIXED || gridDim.x < work_tiles_);
  unsigned ticket_ = 0;  // of the scheduler thread; not read until it is needed, since the atomic has a long latency
  int next_ = 0;

 public:
  TileScheduler(const KernelParams& p, const Sm90Params& w, const Pipeline& pipeline)
      : p_(p), w_(w), pipeline_(pipeline) {
    if (blockIdx.x < late_ctas(p_)) prefetch_next_work();
  }

  // Issues the atomic; `fetch_work` reads its result.
  void prefetch_next_work() {
    if (is_scheduler_ && is_dynamic_) ticket_ = ticket_fetch_inc(p_.split_semaphores);
  }
  // Starts copying the next work item into slot `work_index`; `get_next_work` waits for it.
  void fetch_work(int work_index) {
    if (!is_scheduler_) return;
    unsigned late = late_ctas(p_);
    bool by_index = next_ == 0 && blockIdx.x >= late;
    unsigned work = CLUSTER_CTAS > 1 ? work_of_cluster()
                    : by_index       ? blockIdx.x - late
                    : is_dynamic_    ? gridDim.x - late + ticket_
                                     : work_tiles_;
    pipeline_.next_work(next_) = work;
    if (work >= work_tiles_) return;
    WorkTileIndex index = work_tile_index(work, w_.items, p_.kv_heads, w_.heads);
    pipeline_.store_work(work_index, prefill_items(p_)[index.item], index.kv_head);
  }
  // Whether there is another work tile; its item has arrived then. All producer threads call it.
  bool get_next_work() {
    if (is_scheduler_) cp_async_wait<0>();
    named_barrier_sync(PRODUCER_BARRIER, 32 * PRODUCER_WARPS);
    return pipeline_.next_work(next_++) < work_tiles_;
  }
  // Called after the last work tile: the last CTA resets the counters.
  void finish() const {
    if (is_scheduler_ && is_dynamic_ && semaphore_arrive(p_.split_semaphores + 1) == gridDim.x - 1)
      p_.split_semaphores[0] = p_.split_semaphores[1] = 0;
  }

 private:
  // There and back over the clusters, since items are in the order of their lengths.
  unsigned work_of_cluster() const {
    unsigned clusters = gridDim.x / CLUSTER_CTAS, cluster = blockIdx.x / CLUSTER_CTAS;
    return next_ * clusters + (next_ % 2 ? clusters - 1 - cluster : cluster);
  }
};
