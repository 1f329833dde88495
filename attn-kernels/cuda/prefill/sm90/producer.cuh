// Producer warpgroup of sm_90 prefill: takes work tiles from the tile scheduler, iterates over the KV tiles of each,
// and loads Q, K and V. It waits only for free stages, never for arithmetic. K of a tile is loaded before V of the
// previous one, because gemm_qk needs it first; separate warps issue the TMA loads of K and V. Q of the next work tile
// is loaded while the consumers compute the last KV tiles of this one. A kernel includes its `loaders.cuh` before.
//
// Where values are the first columns of the keys, V loads these and K the others, one after the other, since gemm_qk
// needs both. An item has pairs of tiles then; the last one may be without keys.
#pragma once
#include "arch/cluster.cuh"
#include "prefill/q_loader.cuh"
#include "prefill/sm90/dense_keys.cuh"
#include "schedule/tile_scheduler.cuh"
#include "prefill/sm90/smem_tiles.cuh"

constexpr bool V_AFTER_NEXT_K = !V_SHARES_K, TILE_PAIRS = V_SHARES_K;

// What threads hold of a tile while they wait for its stage (ROWS_HELD), or nothing.
template <class Loader, bool = ROWS_HELD>
struct HeldRows {
  void fetch(const Loader&, int, int, const KvRowLocation&) {}
  template <class To>
  void load(const Loader& loader, To to, unsigned barrier, int end, int key, const KvRowLocation& own) {
    loader.load(to, barrier, end, key, own);
  }
};
template <class Loader>
struct HeldRows<Loader, true> : Loader::Held {
  void fetch(const Loader& loader, int end, int key, const KvRowLocation& own) { loader.fetch(*this, end, key, own); }
  template <class To>
  void load(const Loader& loader, To to, unsigned barrier, int, int, const KvRowLocation&) {
    loader.load(to, barrier, *this);
  }
};

// The producer's state. Tiles are counted over all work items; with V_AFTER_NEXT_K V of a tile is loaded after K of the
// next one, even if that belongs to another item.
template <bool USE_TMA>
class Producer {
  const KernelParams& p_;
  const Variant& variant_;
  const Sm90Params& w_;
  const SmemTiles& tiles_;
  const Pipeline& pipeline_;
  bool commits_ = is_leader_of(ProducerWarp::LOAD_K);
  int tile_index_ = 0;  // the next tile
  // the previous tile, whose V is still to be loaded
  VLoader<USE_TMA> v_loader_;
  int prev_key_ = -1, prev_end_ = 0;
  KvRowLocation prev_location_ = {};
  HeldRows<VLoader<USE_TMA>> held_v_;
  unsigned cut_tiles_ = 0;  // that this warp has loaded

  // With a list of keys: whether the request ends within a box of the tile. Loads such a tile, before it is committed.
  static constexpr bool MAY_CUT = Variant::HAS_KV_LIST && USE_TMA;
  template <class Loader, class To>
  bool load_cut(const Loader& loader, To to, bool values, const KvRowLocation& own) {
    if (own.cut) load_cut_tile(loader, to, pipeline_.cut_full(values), cut_tiles_++ & 1, w_, own);
    return own.cut;
  }

  // producer_acquire, load and producer_commit of the previous tile's V; a tile without keys has no V.
  void load_v() {
    if (tile_index_ == 0 || !v_loader_.participates(prev_key_ >= 0)) return;
    PipelineState state(tile_index_ - 1);
    unsigned barrier = pipeline_.v_full(state.stage);
    mbarrier_wait(pipeline_.v_empty(state.stage), state.phase ^ 1);
    int loaded = prev_key_;
    if constexpr (MAY_CUT)
      if (load_cut(v_loader_, tiles_.v_stage(state.stage), true, prev_location_)) loaded = -1;
    if (is_leader_of(ProducerWarp::LOAD_V)) mbarrier_arrive_expect_tx(barrier, loaded >= 0 ? v_loader_.BYTES : 0);
    if (loaded >= 0)
      held_v_.load(v_loader_, tiles_.v_stage(state.stage), barrier, prev_end_, prev_key_, prev_location_);
    else
      v_loader_.arrive_empty(barrier);
  }

 public:
  Producer(const KernelParams& p, const Variant& variant, const Sm90Params& w, const SmemTiles& tiles,
           const Pipeline& pipeline)
      : p_(p),
        variant_(variant),
        w_(w),
        tiles_(tiles),
        pipeline_(pipeline),
        v_loader_(value_loader<USE_TMA>(p, variant, w, {}, 0)) {}

  // `prefetch` is called once per work item, when the producer has time.
  template <class Prefetch>
  void load_work_tile(const WorkItem& item, int kv_head, int work_index, Prefetch prefetch) {
    QTile q_tile(item, kv_head);
    KvRange kv_range(p_, variant_, q_tile, item);
    int end = kv_range.end();
    KLoader<USE_TMA> k_loader = key_loader<USE_TMA>(p_, variant_, w_, q_tile.request, kv_head);
    KvTileIter<PARTS> kv_iter(p_, q_tile, item.kv_begin, end);
    TileClasses classes;
    int key = kv_iter.next(variant_, classes);
    KeyLocator<USE_TMA> locator(p_, w_, q_tile.request, kv_range);
    auto locate = [&](int first_key) { return first_key >= 0 ? locator.locate(first_key) : KvRowLocation{}; };
    KvRowLocation location = locate(key);
    QPipelineState q_state(work_index);
    bool first = true, last, q_pending = false;
    HeldRows<KLoader<USE_TMA>> held_k;
    if constexpr (ROWS_HELD) v_loader_ = value_loader<USE_TMA>(p_, variant_, w_, q_tile.request, kv_head);
    // cp.async writes become visible to WGMMA through a proxy fence of the writing thread.
    auto commit_q = [&] {
      cp_async_wait<0>();
      fence_view_async_shared();
      mbarrier_arrive(pipeline_.q_full(q_state.stage));
    };
#pragma unroll 1
    do {
      TileClasses next_classes;
      int next = kv_iter.next(variant_, next_classes);
      last = next < 0;
      KvRowLocation next_location = {};
      if constexpr (ROWS_HELD) {
        if (key >= 0) {
          held_k.fetch(k_loader, end, key, location);
          held_v_.fetch(v_loader_, end, key, location);
        }
        // while these loads are in flight
        next_location = locate(next);
        if (next >= 0) k_loader.prefetch(end, next, next_location);
      }
      if (k_loader.participates(key >= 0)) {
        PipelineState state(tile_index_);
        unsigned barrier = pipeline_.k_full(state.stage);
        mbarrier_wait(pipeline_.k_empty(state.stage), state.phase ^ 1);  // producer_acquire
        int loaded = key;
        if constexpr (MAY_CUT)
          if (load_cut(k_loader, tiles_.k_stage(state.stage), false, location)) loaded = -1;
        if constexpr (Variant::HAS_KV_LIST) {
          if (key >= 0) store_positions(k_loader, pipeline_.positions(tile_index_), w_, location);
          if (location.full && !Variant::HAS_LOGITS_MASK) classes.full = (1 << PARTS) - 1;
        }
        if (commits_) pipeline_.producer_commit(state.stage, {key, classes, last}, loaded >= 0 ? k_loader.BYTES : 0);
        if (loaded >= 0) {
          held_k.load(k_loader, tiles_.k_stage(state.stage), barrier, end, key, location);
        } else {
          k_loader.arrive_empty(barrier);
        }
      }
      if constexpr (V_AFTER_NEXT_K) load_v();
      ++tile_index_;
      if (first) {
        if constexpr (!ROWS_HELD) v_loader_ = value_loader<USE_TMA>(p_, variant_, w_, q_tile.request, kv_head);
        prev_end_ = end;
        SmemQ to = tiles_.q_stage(q_state.stage);
        QTile own_rows = q_tile.of_cta(cluster_rank());
        bool loads_q = is_leader_of(ProducerWarp::LOAD_Q);
        if (!w_.use_tma_q || loads_q) mbarrier_wait(pipeline_.q_empty(q_state.stage), q_state.phase ^ 1);
        if (!w_.use_tma_q) {
          load_q<QLoader<FIRST_PRODUCER_THREAD, 32 * PRODUCER_WARPS>>(to, p_, own_rows);
          cp_async_commit();
        } else if (loads_q) {
          tma_load_q(to, w_.q, pipeline_.q_full(q_state.stage), own_rows.at(p_, 0), to.BYTES);
        }
        prefetch();
      } else if (q_pending) {
        commit_q();
      }
      q_pending = first && !w_.use_tma_q;
      first = false;
      prev_key_ = key;
      prev_location_ = location;
      if constexpr (!V_AFTER_NEXT_K) load_v();
      key = next;
      classes = next_classes;
      location = ROWS_HELD ? next_location : locate(next);
      if constexpr (KEYS_DECODED && !ROWS_HELD)
        if (next >= 0) k_loader.prefetch(end, next, location);
    } while (!last || (TILE_PAIRS && tile_index_ % 2 == 1));
    if (q_pending) commit_q();
  }

  // Called after all work tiles: loads the last V, and commits an end marker.
  void finish() {
    if constexpr (V_AFTER_NEXT_K) load_v();
    if (!key_loader<USE_TMA>(p_, variant_, w_, {}, 0).participates(false)) return;
    PipelineState state(tile_index_);
    mbarrier_wait(pipeline_.k_empty(state.stage), state.phase ^ 1);
    if (commits_) pipeline_.producer_commit(state.stage, {-1, PipelineTile::END}, 0);
    KLoader<USE_TMA>::arrive_empty(pipeline_.k_full(state.stage));
  }
};

template <bool USE_TMA>
inline void producer_loop(const KernelParams& p, const Variant& variant, const Sm90Params& w, const SmemTiles& tiles,
                          const Pipeline& pipeline) {
  Producer<USE_TMA> producer(p, variant, w, tiles, pipeline);
  TileScheduler scheduler(p, w, pipeline);
  int work_index = 0;
  scheduler.fetch_work(work_index);
#pragma unroll 1
  while (scheduler.get_next_work()) {
    WorkTile work = pipeline.load_work(work_index);
    scheduler.prefetch_next_work();
    if (work.item.rows > 0) {
      producer.load_work_tile(work.item, work.kv_head, work_index, [&] { scheduler.fetch_work(work_index + 1); });
      ++work_index;
    } else {  // unused capacity: all producer threads have read the item before its slot is overwritten
      named_barrier_sync(PRODUCER_BARRIER, 32 * PRODUCER_WARPS);
      scheduler.fetch_work(work_index);
    }
  }
  producer.finish();
  scheduler.finish();
}
