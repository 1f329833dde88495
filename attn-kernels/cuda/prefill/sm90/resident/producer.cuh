// Producer of sm_90 prefill for work items whose keys fit one KV tile. It loads K and V of an item once, as soon as the
// item before the last is done, and the item's Q tiles one after the other, as warpgroups release their stages. By TMA
// one warp loads K, one V and one Q, so that Q does not wait for the stages of K and V.
#pragma once
#include "arch/mbarrier_test.cuh"
#include "prefill/sm90/exact/loaders.cuh"
#include "prefill/q_loader.cuh"
#include "schedule/tile_scheduler.cuh"
#include "prefill/sm90/resident/q_stage.cuh"

// Loads the KV tile of work tile `n`, which is empty if the item has no keys.
template <bool USE_TMA>
inline void load_kv_tile(const KernelParams& p, const Variant& variant, const Sm90Params& w, const SmemTiles& tiles,
                         const Pipeline& pipeline, const WorkTile& work, int n) {
  PipelineState state(n);
  Request request = request_of(work.item);
  KLoader<USE_TMA> k_loader = key_loader<USE_TMA>(p, variant, w, request, work.kv_head);
  VLoader<USE_TMA> v_loader = value_loader<USE_TMA>(p, variant, w, request, work.kv_head);
  int end = work.item.kv_end, key = work.item.kv_begin < end ? work.item.kv_begin : -1;
  bool has_keys = key >= 0;
  KvRowLocation location = {};
  if constexpr (KEYS_PAGED)
    if (has_keys) location = locate_tile_part<USE_TMA>(p, w, request, ClampedRange{end}, key);
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

// Loads rows of a Q tile that TMA does not load, by all producer threads. `to`: its first row.
inline void load_q_rows(SmemQ to, const KernelParams& p, const QTile& q_tile) {
  using Loader = QLoader<FIRST_PRODUCER_THREAD, 32 * PRODUCER_WARPS>;
  if (!Loader::Row::holds()) return;
#pragma unroll 4
  for (int row = Loader::row(); row < WARPGROUP_ROWS; row += Loader::ROWS_PER_PASS) {
    QueryChunks from(p, q_tile.at(p, q_tile.clamp_row(row)), 0);
#pragma unroll
    for (int i = 0; i < Loader::CHUNKS; ++i) from.copy(to.at(row, Loader::chunk() + i), Loader::chunk() + i);
  }
}

// Loads Q tile `q_index` of the CTA.
inline void load_q_tile(const KernelParams& p, const Sm90Params& w, const SmemTiles& tiles, const Pipeline& pipeline,
                        const WorkTile& work, int first, int q_index) {
  if (w.use_tma_q && !is_leader_of(ProducerWarp::LOAD_Q)) return;
  int tile_rows = q_tile_rows(p, w);
  QTile q_tile(warpgroup_item(work.item, first, tile_rows, 0), work.kv_head);
  QPipelineState state(q_index);
  SmemQ to = {rows_of_stage(tiles, state.stage).base + warpgroup_of(q_index) * WARPGROUP_ROWS * 128};
  unsigned barrier = pipeline.q_full(state.stage);
  mbarrier_wait(pipeline.q_empty(state.stage), state.phase ^ 1);
  if (w.use_tma_q) {
    tma_load_q(to, w.q, barrier, q_tile.at(p, 0), SmemQ::BYTES / SmemQ::PANEL_BYTES * tile_rows * 128);
  } else {
    load_q_rows(to, p, q_tile);
    cp_async_commit();
    cp_async_wait<0>();
    fence_view_async_shared();
    mbarrier_arrive(barrier);
  }
}

// The Q tiles of a work item that are not loaded yet. The item stays in its slot until they are.
struct PendingQTiles {
  int work_index = 0, first = 0, rows = 0;

  // Loads them, of which the first is Q tile `q_index` of the CTA; with `only_free` as many as have a free stage. The
  // lanes of a warp agree on that.
  void load(const KernelParams& p, const Sm90Params& w, const SmemTiles& tiles, const Pipeline& pipeline, int& q_index,
            bool only_free) {
    if (first >= rows) return;
    WorkTile work = pipeline.load_work(work_index);
    auto is_free = [&] {
      QPipelineState state(q_index);
      return __all_sync(ALL_LANES, mbarrier_test(pipeline.q_empty(state.stage), state.phase ^ 1));
    };
#pragma unroll 1
    for (; first < rows && (!only_free || is_free()); first += q_tile_rows(p, w))
      load_q_tile(p, w, tiles, pipeline, work, first, q_index++);
  }
};

template <bool USE_TMA>
inline void producer_loop(const KernelParams& p, const Variant& variant, const Sm90Params& w, const SmemTiles& tiles,
                          const Pipeline& pipeline) {
  TileScheduler scheduler(p, w, pipeline);
  int work_index = 0, q_index = 0;
  PendingQTiles pending;
  scheduler.fetch_work(work_index);
#pragma unroll 1
  while (scheduler.get_next_work()) {
    WorkTile work = pipeline.load_work(work_index);
    scheduler.prefetch_next_work();
    if (work.item.rows > 0) {
      load_kv_tile<USE_TMA>(p, variant, w, tiles, pipeline, work, work_index);
      scheduler.fetch_work(work_index + 1);
      // All warps wait for the next item together, so that its K and V would wait for Q tiles that wait for a stage:
      // these are left until then.
      pending.load(p, w, tiles, pipeline, q_index, false);
      pending = {work_index++, 0, work.item.rows};
      pending.load(p, w, tiles, pipeline, q_index, true);
    } else {  // unused capacity: all producer threads have read the item before its slot is overwritten
      named_barrier_sync(PRODUCER_BARRIER, 32 * PRODUCER_WARPS);
      scheduler.fetch_work(work_index);
    }
  }
  pending.load(p, w, tiles, pipeline, q_index, false);
  if (key_loader<USE_TMA>(p, variant, w, {}, 0).participates(false)) {
    PipelineState state(work_index);
    mbarrier_wait(pipeline.k_empty(state.stage), state.phase ^ 1);
    if (is_leader_of(ProducerWarp::LOAD_K)) pipeline.producer_commit(state.stage, {-1, PipelineTile::END}, 0);
    KLoader<USE_TMA>::arrive_empty(pipeline.k_full(state.stage));
  }
  scheduler.finish();
}
