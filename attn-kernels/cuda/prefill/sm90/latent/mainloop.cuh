// Consumer mainloop of latent attention (MLA), whose values are the first columns of the keys.
//
// O of 64 rows exceeds the registers of a warpgroup. So two warpgroups share the rows, and each has half of the columns
// of O (FlashMLA). KV tiles come in pairs. Warpgroup 0 computes P of the first tile, warpgroup 1 that of the second;
// each multiplies P of both with its half of V, the first tile's before the second's. P goes to the other warpgroup
// through shared memory, and row_max with it. So the softmax of one tile overlaps with GEMMs of the other.
#pragma once
#include "prefill/sm90/exact/warpgroup_tile.cuh"
#include "prefill/sm90/exact/zero_v_rows.cuh"
#include "prefill/sm90/latent/products.cuh"
#include "prefill/sm90/producer.cuh"
#include "prefill/sm90/store.cuh"
#include "prefill/sm90/tile_mask.cuh"

static_assert(CONSUMER_WARPGROUPS == 2 && TILE_ROWS == 64 && STAGES == 2, "two warpgroups share 64 rows and two tiles");
static_assert(!LAZY_MAX && !BIAS_IN_ACCUMULATOR && TILE_KEYS == 64, "rows are long, and P of a tile is one panel");
static_assert(!OUTPUTS_STAGED, "shared memory has no room for O");

// What warpgroups tell each other about their rows: the running row_max, and at the end of a work tile their shares of
// row_sum.
struct RowExchange {
  float row_max[TILE_ROWS];
  float row_sum[COLUMN_WARPS][TILE_ROWS];
};
inline RowExchange& row_exchange() {
  __shared__ RowExchange storage;
  return storage;
}

// What a consumer warpgroup keeps for a work tile, and the steps of a pair of KV tiles.
struct LatentConsumer {
  const KernelParams& p;
  const Variant& variant;
  const SmemTiles& tiles;
  const Pipeline& pipeline;
  const QTile& q_tile;
  const KvRange& kv_range;
  const WarpgroupQ& q;
  float unit;
  bool tma;
  int warpgroup;
  RowMaxState max_state;
  SoftmaxState softmax = SoftmaxState(max_state.is_static);
  OutputFragment o = {};

  SmemP smem_p() const { return {tiles.p}; }
  // This warpgroup's panels of V.
  SmemV smem_v(int stage) const {
    return {tiles.v_stage(stage).base + warpgroup * (COLUMNS / 64) * SmemV::PANEL_BYTES};
  }

  void arrive(unsigned barrier) const {
    __syncwarp();
    if (threadIdx.x % 32 == 0) mbarrier_arrive(barrier);
  }
  // Releases half of a stage, which all CTAs of the cluster write.
  void release(unsigned barrier) const {
    arrive(barrier);
    if constexpr (CLUSTER_CTAS > 1)
      if (threadIdx.x % 32 == 0) mbarrier_arrive_remote(shared_of_cta(barrier, cluster_rank() ^ 1));
  }
  // Waits for the rest of a tile, once its first half has arrived.
  void wait_v(PipelineState state) const {
    mbarrier_wait(pipeline.v_full(state.stage), state.phase);
    if (!tma) fence_view_async_shared();
  }

  // S of this warpgroup's tile, whose columns from COLUMNS on have arrived.
  void issue_gemm_qk(ScoreFragment& s, PipelineState state) const {
    unsigned smem_k = tiles.k_stage(state.stage).base;
    if (!tma) fence_view_async_shared();
    gemm_qk_columns<COLUMNS, HEAD_DIM_QK>(s, q.descriptor, smem_k, false);
    wait_v(state);
    gemm_qk_columns<0, COLUMNS>(s, q.descriptor, smem_k, true);
  }

  // S becomes P, and row_max that of all tiles so far. Returns whether O must be rescaled by `factor`.
  bool softmax_of(ScoreFragment& s, float (&factor)[ROWS_PER_THREAD], const SoftmaxTile& tile) {
    bool grows = false;
    softmax_step<true>(s, softmax, factor, max_state, tile, [&](int, bool grown, auto&) { grows = grown; });
    return grows;
  }
  void rescale(const float (&factor)[ROWS_PER_THREAD]) {
#pragma unroll
    for (int r = 0; r < ROWS_PER_THREAD; ++r) rescale_o(o, r, factor[r]);
  }
  // Hands P of a tile to both warpgroups.
  void publish(const ScoreFragment& probs, int barrier) const {
    if (!Variant::PLAIN && threadIdx.x % 4 == 0)
#pragma unroll
      for (int r = 0; r < ROWS_PER_THREAD; ++r) row_exchange().row_max[fragment_row(r)] = softmax.row_max[r];
    store_probs(smem_p(), probs);
    named_barrier_arrive(barrier, THREADS);
    named_barrier_sync(WARPGROUP_BARRIER + warpgroup, 128);
  }
  // Waits for P of the other warpgroup's tile, and rescales O where row_max has grown there.
  void await(int barrier) {
    named_barrier_sync(barrier, THREADS);
    if constexpr (Variant::PLAIN) return;
    float factor[ROWS_PER_THREAD];
    bool grown = false;
#pragma unroll
    for (int r = 0; r < ROWS_PER_THREAD; ++r) {
      float row_max = static_cast<volatile float*>(row_exchange().row_max)[fragment_row(r)];
      factor[r] = row_max == softmax.row_max[r] ? 1.f : exp2_approx((softmax.row_max[r] - row_max) * q.scale);
      grown |= factor[r] != 1.f;
      softmax.row_max[r] = row_max;
      softmax.row_sum[r] *= factor[r];
    }
    if (__any_sync(ALL_LANES, grown)) rescale(factor);
  }
  void wait_gemm_pv() {
    warpgroup_wait<0>();
    warpgroup_fence_operand(o[0]);
  }
  // Of the tile that holds the last key. TMA can load rows past it; cp.async loads are clamped to keys that exist.
  void zero_rows(const PipelineTile& tile, PipelineState state) const {
    if (!Variant::HAS_KV_LIST && tma && tile.key + TILE_KEYS > kv_range.end())
      zero_v_rows<128, COLUMNS / 8>(WARPGROUP_BARRIER + warpgroup, threadIdx.x % 128, smem_v(state.stage),
                                    kv_range.end() - tile.key);
  }

  // A pair of tiles, of which warpgroup 0 computes P of the first one. `of_first` has arrived. Returns whether it is
  // the item's last pair.
  template <class ReleaseQ>
  bool first_of_pair(int n, const PipelineTile& of_first, ReleaseQ release_q) {
    PipelineState first(n), second(n + 1);
    if (of_first.has_keys()) {
      ScoreFragment s;
      float factor[ROWS_PER_THREAD] = {};
      ScoreTile tile = {p, variant, q_tile, kv_range, of_first.key, pipeline.positions(n), unit};
      issue_gemm_qk(s, first);
      ScoreMask mask;
      bool masked = needs_mask(tile, of_first, 0);
      if (masked) mask.evaluate(tile);
      Bias bias(tile);
      warpgroup_wait<0>();
      warpgroup_fence_operand(s[0]);
      release(pipeline.k_empty(first.stage));
      SoftmaxTile softmax_tile = {tile, mask, masked, bias, q};
      bool grown = softmax_of(s, factor, softmax_tile);
      named_barrier_sync(SECOND_READ_BARRIER, THREADS);
      publish(s, FIRST_PROBS_BARRIER);
      if (grown) rescale(factor);
      zero_rows(of_first, first);
      gemm_pv(o, smem_p(), smem_v(first.stage).base);
    } else {
      wait_v(first);
      release(pipeline.k_empty(first.stage));
    }
    PipelineTile of_second = pipeline.consumer_wait_tile(n + 1);
    if (of_second.last()) release_q();
    release(pipeline.k_empty(second.stage));
    wait_v(second);
    wait_gemm_pv();
    release(pipeline.v_empty(first.stage));
    if (of_second.has_keys()) {
      named_barrier_arrive(FIRST_READ_BARRIER, THREADS);
      await(SECOND_PROBS_BARRIER);
      gemm_pv(o, smem_p(), smem_v(second.stage).base);
      wait_gemm_pv();
    }
    release(pipeline.v_empty(second.stage));
    return of_second.last();
  }

  // Warpgroup 1 multiplies P of the first tile.
  void gemm_pv_of_first(const PipelineTile& tile, PipelineState state) {
    wait_v(state);
    release(pipeline.v_empty(state.stage));
    if (!tile.has_keys()) return;
    await(FIRST_PROBS_BARRIER);
    zero_rows(tile, state);
    gemm_pv(o, smem_p(), smem_v(state.stage).base);
  }

  // The same pair, of which warpgroup 1 computes P of the second tile.
  template <class ReleaseQ>
  bool second_of_pair(int n, const PipelineTile& of_first, ReleaseQ release_q) {
    PipelineState first(n), second(n + 1);
    PipelineTile of_second = pipeline.consumer_wait_tile(n + 1);
    if (!of_second.has_keys()) {
      release_q();
      gemm_pv_of_first(of_first, first);
      wait_gemm_pv();
      if (of_first.has_keys()) named_barrier_arrive(SECOND_READ_BARRIER, THREADS);
      release(pipeline.k_empty(first.stage));
      wait_v(second);
      release(pipeline.k_empty(second.stage));
      release(pipeline.v_empty(second.stage));
      return true;
    }
    ScoreFragment s;
    ScoreTile tile = {p, variant, q_tile, kv_range, of_second.key, pipeline.positions(n + 1), unit};
    issue_gemm_qk(s, second);
    ScoreMask mask;
    bool masked = MASK_IN_LOOP && needs_mask(tile, of_second, 0);
    if (masked) mask.evaluate(tile);
    Bias bias(tile);
    // not beside gemm_pv: ptxas serialises WGMMAs of S and O where O is rescaled between them
    warpgroup_wait<0>();
    warpgroup_fence_operand(s[0]);
    release(pipeline.v_empty(second.stage));
    if (of_second.last()) release_q();
    gemm_pv_of_first(of_first, first);
    float factor[ROWS_PER_THREAD] = {};
    SoftmaxTile softmax_tile = {tile, mask, masked, bias, q};
    bool grown = softmax_of(s, factor, softmax_tile);
    wait_gemm_pv();
    release(pipeline.k_empty(first.stage));
    named_barrier_sync(FIRST_READ_BARRIER, THREADS);
    publish(s, SECOND_PROBS_BARRIER);
    if (grown) rescale(factor);
    gemm_pv(o, smem_p(), smem_v(second.stage).base);
    wait_gemm_pv();
    named_barrier_arrive(SECOND_READ_BARRIER, THREADS);
    release(pipeline.k_empty(second.stage));
    return of_second.last();
  }

  // Once all tiles are done: row_sum of both warpgroups. The epilogue adds up the lanes of a quad.
  void exchange_row_sums() {
    auto& sums = row_exchange().row_sum;
    named_barrier_sync(CONSUMER_BARRIER, THREADS);  // both have read those of the work tile before
#pragma unroll
    for (int r = 0; r < ROWS_PER_THREAD; ++r) {
      add_quad(softmax.row_sum[r]);
      if (threadIdx.x % 4 == 0) sums[warpgroup][fragment_row(r)] = softmax.row_sum[r];
    }
    named_barrier_sync(CONSUMER_BARRIER, THREADS);
#pragma unroll
    for (int r = 0; r < ROWS_PER_THREAD; ++r) {
      const volatile float* of_other = sums[1 - warpgroup];
      softmax.row_sum[r] = (softmax.row_sum[r] + of_other[fragment_row(r)]) * 0.25f;
    }
  }
};

inline void consumer_mainloop(const KernelParams& p, const Variant& variant, const Sm90Params& w,
                              const SmemTiles& tiles, const Pipeline& pipeline) {
  // shfl makes the value warp-uniform, so that ptxas keeps descriptors in uniform registers
  int warp = __shfl_sync(ALL_LANES, static_cast<int>(threadIdx.x) / 32, 0), warpgroup = warp / 4;
  bool tma = use_tma(w) || VLoader<false>::USES_TMA;
  if (warpgroup == 1) named_barrier_arrive(SECOND_READ_BARRIER, THREADS);
  int n = 0;
  PipelineTile next = pipeline.consumer_wait_tile(n);
#pragma unroll 1
  for (int work_index = 0; !next.end(); ++work_index) {
    WorkTile work = pipeline.load_work(work_index);
    QTile q_tile = QTile(work.item, work.kv_head).of_cta(cluster_rank());
    KvRange kv_range(p, variant, q_tile, work.item);
    float unit = qk_scale(p, q_tile.kv_head);
    QPipelineState q_state(work_index);
    WarpgroupQ q(tiles.q_stage(q_state.stage), warp, score_scale_log2(unit));
    mbarrier_wait(pipeline.q_full(q_state.stage), q_state.phase);
    q.transform(p, variant, q_tile);
    RowMaxState max_state(variant, q_tile);
    LatentConsumer consumer = {p, variant, tiles, pipeline, q_tile, kv_range, q, unit, tma, warpgroup, max_state};
    auto release_q = [&] {
      if constexpr (!OUTPUT_FROM_F32) consumer.arrive(pipeline.q_empty(q_state.stage));
    };
    bool last = false;
#pragma unroll 1
    while (true) {
      last = warpgroup == 0 ? consumer.first_of_pair(n, next, release_q) : consumer.second_of_pair(n, next, release_q);
      n += 2;
      if (last) break;
      next = pipeline.consumer_wait_tile(n);
    }
    consumer.exchange_row_sums();
    auto write = [&](float unit, unsigned staging) {
      store_o(p, w, variant, consumer.o, consumer.softmax, unit, q_tile, warp, staging);
    };
    int partial = work.item.partial;
    if (CLUSTER_CTAS > 1 && partial >= 0) partial += cluster_rank() * TILE_ROWS;
    store_rows(p, variant, consumer.o, consumer.softmax, q_tile, partial, tiles.q.base, write);
    if constexpr (OUTPUT_FROM_F32) {
      fence_view_async_shared();  // before TMA loads Q over the staged rows
      consumer.arrive(pipeline.q_empty(q_state.stage));
    }
    next = pipeline.consumer_wait_tile(n);
  }
}
