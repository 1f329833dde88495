// Consumer mainloop of sm_90 prefill: warpgroups of 64 rows each. gemm_qk of a tile runs asynchronously beside gemm_pv
// of the tile before it, and the softmax of the tile overlaps with the latter (FlashAttention-3, arXiv 2407.08608:
// intra-warpgroup pipelining and ping-pong).
//
// A kernel includes its `loaders.cuh` and `warpgroup_tile.cuh` before. The latter has what a warpgroup keeps for a work
// tile: Q as an operand (`WarpgroupQ`), `Outputs`, P (`ProbTile`) and `WarpgroupSoftmax`.
#pragma once
#include "prefill/sm90/exact/zero_v_rows.cuh"
#include "prefill/sm90/producer.cuh"
#include "prefill/sm90/store.cuh"
#include "prefill/sm90/tile_mask.cuh"

inline void consumer_mainloop(const KernelParams& p, const Variant& variant, const Sm90Params& w,
                              const SmemTiles& tiles, const Pipeline& pipeline) {
  // shfl makes the value warp-uniform, so that ptxas keeps descriptors in uniform registers
  int warp = __shfl_sync(ALL_LANES, static_cast<int>(threadIdx.x) / 32, 0), warpgroup = warp / 4;
  int part = PARTS > 1 ? warpgroup : 0;  // of the rows, for tile classes
  bool lane_0 = threadIdx.x % 32 == 0, tma = use_tma(w), v_by_tma = tma || VLoader<false>::USES_TMA;
  auto await_turn = [&] {
    if constexpr (PINGPONG) warp_scheduler_barrier_sync(warpgroup);
  };
  auto pass_turn = [&] {
    if constexpr (PINGPONG) warp_scheduler_barrier_arrive((warpgroup + 1) % CONSUMER_WARPGROUPS);
  };
  if constexpr (PINGPONG)
    if (warpgroup == 0) warp_scheduler_barrier_arrive(0);

  int n = 0;
  PipelineTile next = pipeline.consumer_wait_tile(n);
#pragma unroll 1
  for (int work_index = 0; !next.end(); ++work_index) {
    WorkTile work = pipeline.load_work(work_index);
    int partial = work.item.partial;
    QTile q_tile(work.item, work.kv_head);
    KvRange kv_range(p, variant, q_tile, work.item);
    float unit = qk_scale(p, q_tile.kv_head), scale = score_scale_log2(unit);
    QPipelineState q_state(work_index);
    SmemQ smem_q = tiles.q_stage(q_state.stage);
    auto consumer_release_q = [&] {
      __syncwarp();
      if (lane_0) mbarrier_arrive(pipeline.q_empty(q_state.stage));
    };
    WarpgroupQ q(smem_q, warp, scale);
    mbarrier_wait(pipeline.q_full(q_state.stage), q_state.phase);
    q.transform(p, variant, q_tile);
    if constexpr (Q_RELEASE == QRelease::ONCE_READ) consumer_release_q();

    // A TMA load can include V rows past the last key, which all consumers zero; cp.async loads are clamped to keys
    // that exist, transposed values have zeros, and the producer zeroes rows of lists.
    bool may_zero = !E4M3_COMPUTE && !Variant::HAS_KV_LIST && v_by_tma && next.has_keys();
    if (may_zero && next.key + TILE_KEYS > kv_range.end()) {
      PipelineState state(n);
      mbarrier_wait(pipeline.v_full(state.stage), state.phase);
      zero_v_rows<THREADS>(CONSUMER_BARRIER, threadIdx.x, tiles.v_stage(state.stage), kv_range.end() - next.key);
    }
    Outputs o;
    RowMaxState max_state(variant, q_tile);
    WarpgroupSoftmax softmax(max_state, q, unit);
    ProbTile probs;
    bool skipped = false;  // whether the previous tile was, so that there is no P of it

    auto issue_gemm_qk = [&](ScoreFragment& s, const ScoreTile& tile, PipelineState state) {
      if (!tma) fence_view_async_shared();
      start_gemm_qk(s, q, tile, tiles.k_stage(state.stage).base);
    };
    auto issue_gemm_pv = [&](PipelineState state) {
      mbarrier_wait(pipeline.v_full(state.stage), state.phase);
      if (SKIP_SOFTMAX && skipped) {
        warpgroup_commit_batch();  // an empty group, so that waits count the same groups
        return;
      }
      if (!E4M3_COMPUTE && !tma) fence_view_async_shared();
      start_gemm_pv(o, probs, tiles.v_stage(state.stage).base);
    };
    auto consumer_release_k = [&](PipelineState state) {
      __syncwarp();
      if (!lane_0) return;
      mbarrier_arrive(pipeline.k_empty(state.stage));
      if (Q_RELEASE == QRelease::WITH_LAST_K && next.last()) mbarrier_arrive(pipeline.q_empty(q_state.stage));
    };
    auto consumer_release_v = [&](PipelineState state) {
      __syncwarp();
      if (lane_0) mbarrier_arrive(pipeline.v_empty(state.stage));
    };

    auto first_tile = [&](ScoreFragment& s, float (&factor)[ROWS_PER_THREAD], int n) {
      PipelineState state(n);
      ScoreTile tile = {p, variant, q_tile, kv_range, next.key, pipeline.positions(n), unit};
      issue_gemm_qk(s, tile, state);
      ScoreMask mask;
      bool masked = needs_mask(tile, next, part);
      if (masked) mask.evaluate(tile);
      Bias bias(tile);
      warpgroup_wait<0>();
      warpgroup_fence_operand(s[0]);
      pass_turn();
      consumer_release_k(state);
      SoftmaxTile softmax_tile = {tile, mask, masked, bias, q};
      softmax.first_step(s, factor, probs, max_state, softmax_tile);
    };
    auto tile_after_first = [&](ScoreFragment& s, float (&factor)[ROWS_PER_THREAD], int n) {
      PipelineState state(n), prev_state(n - 1);
      if constexpr (GEMM_QK_READS_TILE) next = pipeline.read_tile(n);
      ScoreTile tile = {p, variant, q_tile, kv_range, next.key, pipeline.positions(n), unit};
      await_turn();
      issue_gemm_qk(s, tile, state);
      issue_gemm_pv(prev_state);
      if constexpr (!GEMM_QK_READS_TILE) {  // read after issuing the GEMMs, which do not need it
        next = pipeline.read_tile(n);
        tile.first_key = next.key;
      }
      ScoreMask mask;
      bool masked = MASK_IN_LOOP && needs_mask(tile, next, part);
      if (masked) mask.evaluate(tile);
      Bias bias(tile);
      warpgroup_wait<1>();
      warpgroup_fence_operand(s[0]);
      pass_turn();
      consumer_release_k(state);
      SoftmaxTile softmax_tile = {tile, mask, masked, bias, q};
      skipped = softmax.step(s, factor, probs, o, max_state, softmax_tile, w.skip_threshold, [&](float x) {
        // ptxas would hoist the wait for gemm_pv, and then nothing would overlap with it
        scheduling_fence(x, tiles.q.base);
        warpgroup_wait<0>();
        o.arrived();
        consumer_release_v(prev_state);
      });
    };
    auto last_gemm_pv = [&](int n, bool active) {
      PipelineState state(n);
      if (active) {
        issue_gemm_pv(state);
        warpgroup_wait<0>();
        o.arrived();
      } else {
        // also for a tile without keys: the producer commits it, and waits for the phase that this release ends
        mbarrier_wait(pipeline.v_full(state.stage), state.phase);
      }
      consumer_release_v(state);
    };

    // Skips leading tiles that are fully masked for this warpgroup's rows, but never the last tile.
    bool no_rows = q_tile.rows <= 64 * warpgroup, active = false, last = false;
    while (true) {
      active = next.has_keys() && !no_rows && !next.skip(part);
      last = next.last();
      if (active || last) break;
      PipelineState state(n);
      await_turn();
      pass_turn();
      consumer_release_k(state);
      mbarrier_wait(pipeline.v_full(state.stage), state.phase);
      consumer_release_v(state);
      next = pipeline.consumer_wait_tile(++n);
    }
    await_turn();
    if (active) {
      ScoreFragment s;
      float factor[ROWS_PER_THREAD];
      first_tile(s, factor, n);
    } else {
      pass_turn();
      consumer_release_k(PipelineState(n));
    }
    ++n;
    if (!last) pipeline.consumer_wait(n);
#pragma unroll 1
    while (!last) {
      ScoreFragment s;
      float factor[ROWS_PER_THREAD];
      tile_after_first(s, factor, n);
      last = next.last();
      ++n;
      if (!last) pipeline.consumer_wait(n);
    }
    if constexpr (Q_RELEASE == QRelease::AFTER_SCORES) consumer_release_q();
    last_gemm_pv(n - 1, active);
    softmax.finish(o, p, q_tile.kv_head);
    if constexpr (Q_RELEASE == QRelease::AFTER_STORE) named_barrier_sync(CONSUMER_BARRIER, THREADS);  // all have read Q
    if constexpr (OUTPUTS_STAGED) tma_store_wait();
    store_rows(p, variant, o.fragment(), softmax.state, q_tile, partial, tiles.o, [&](float unit, unsigned staging) {
      store_o(p, w, variant, o.fragment(), softmax.state, unit, q_tile, warp, staging);
    });
    if constexpr (Q_RELEASE == QRelease::AFTER_STORE) {
      fence_view_async_shared();  // before TMA loads Q over the staged rows
      consumer_release_q();
    }
    next = pipeline.consumer_wait_tile(n);
  }
  if constexpr (OUTPUTS_STAGED) tma_store_wait();  // shared memory must outlive the TMA stores
}
