// Producer of sm_90 prefill for work items whose keys fit one KV tile: it loads K and V of an item once, and then the
// item's Q tiles, one after the other, as the consumers release their stages.
#pragma once
#include "prefill/sm90/tma_load.cuh"
#include "prefill/q_loader.cuh"
#include "schedule/tile_scheduler.cuh"
#include "prefill/sm90/smem_tiles.cuh"

// The Q tile of an item that begins `first` rows on.
inline WorkItem q_tile_item(WorkItem item, int first) {
  item.first_row += first;
  item.rows = min(item.rows - first, TILE_ROWS);
  return item;
}

// Loads the KV tile of work tile `n`, which is empty if the item has no keys.
template <bool USE_TMA>
inline void load_kv_tile(const KernelParams& p, const Sm90Params& w, const SmemTiles& tiles, const Pipeline& pipeline,
                         const WorkTile& work, int n) {
  PipelineState state(n);
  Request request = request_of(work.item);
  KLoader<USE_TMA> k_loader(w, w.k, p.k, key_base<K_PREPROCESSED>(request), work.kv_head);
  VLoader<USE_TMA> v_loader(w, w.v, p.v, key_base<V_PREPROCESSED>(request), work.kv_head);
  int end = work.item.kv_end, key = work.item.kv_begin < end ? work.item.kv_begin : -1;
  bool has_keys = key >= 0;
  KvRowLocation location = {};
  if constexpr (KEYS_PAGED)
    if (has_keys) location = locate_tile_part<USE_TMA>(p, w, request, end, key);
  if (k_loader.participates(has_keys)) {
    unsigned barrier = pipeline.k_full(state.stage);
    mbarrier_wait(pipeline.k_empty(state.stage), state.phase ^ 1);
    if (is_leader_of(ProducerWarp::LOAD_K))
      pipeline.producer_commit(state.stage, {key, TileClasses{}, true}, has_keys ? k_loader.BYTES : 0);
    if (has_keys)
      k_loader.load(tiles.k_stage(state.stage), barrier, end, key, location);
    else
      k_loader.arrive_empty(barrier);
  }
  if (v_loader.participates(has_keys)) {
    unsigned barrier = pipeline.v_full(state.stage);
    mbarrier_wait(pipeline.v_empty(state.stage), state.phase ^ 1);
    if (is_leader_of(ProducerWarp::LOAD_V)) mbarrier_arrive_expect_tx(barrier, has_keys ? v_loader.BYTES : 0);
    if (has_keys)
      v_loader.load(tiles.v_stage(state.stage), barrier, end, key, location);
    else
      v_loader.arrive_empty(barrier);
  }
}

// Loads Q tile `q_index` of the CTA.
inline void load_q_tile(const KernelParams& p, const Sm90Params& w, const SmemTiles& tiles, const Pipeline& pipeline,
                        const QTile& q_tile, int q_index) {
  bool loads_q = is_leader_of(ProducerWarp::LOAD_Q);
  if (w.use_tma_q && !loads_q) return;
  QPipelineState state(q_index);
  SmemQ to = tiles.q_stage(state.stage);
  unsigned barrier = pipeline.q_full(state.stage);
  mbarrier_wait(pipeline.q_empty(state.stage), state.phase ^ 1);
  if (w.use_tma_q) {
    tma_load_q(to, w.q, barrier, q_tile.at(p, 0));
  } else {
    load_q<QLoader<FIRST_PRODUCER_THREAD, 32 * PRODUCER_WARPS>>(to, p, q_tile);
    cp_async_commit();
    cp_async_wait<0>();
    fence_view_async_shared();
    mbarrier_arrive(barrier);
  }
}

template <bool USE_TMA>
inline void producer_loop(const KernelParams& p, const Variant&, const Sm90Params& w, const SmemTiles& tiles,
                          const Pipeline& pipeline) {
  TileScheduler scheduler(p, w, pipeline);
  int work_index = 0, q_index = 0;
  scheduler.fetch_work(work_index);
#pragma unroll 1
  while (scheduler.get_next_work()) {
    WorkTile work = pipeline.load_work(work_index);
    scheduler.prefetch_next_work();
    if (work.item.rows > 0) {
      load_kv_tile<USE_TMA>(p, w, tiles, pipeline, work, work_index++);
      scheduler.fetch_work(work_index);
#pragma unroll 1
      for (int first = 0; first < work.item.rows; first += TILE_ROWS)
        load_q_tile(p, w, tiles, pipeline, QTile(q_tile_item(work.item, first), work.kv_head), q_index++);
    } else {  // unused capacity: all producer threads have read the item before its slot is overwritten
      named_barrier_sync(PRODUCER_BARRIER, 32 * PRODUCER_WARPS);
      scheduler.fetch_work(work_index);
    }
  }
  if (KLoader<USE_TMA>(w, w.k, p.k, 0, 0).participates(false)) {
    PipelineState state(work_index);
    mbarrier_wait(pipeline.k_empty(state.stage), state.phase ^ 1);
    if (is_leader_of(ProducerWarp::LOAD_K)) pipeline.producer_commit(state.stage, {-1, PipelineTile::END}, 0);
    KLoader<USE_TMA>::arrive_empty(pipeline.k_full(state.stage));
  }
  scheduler.finish();
}
