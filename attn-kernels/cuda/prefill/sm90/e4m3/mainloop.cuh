// Consumer mainloop of sm_90 prefill with 8-bit products. As in `prefill/sm90/exact/mainloop.cuh`, gemm_qk of a tile
// runs beside gemm_pv of the tile before it, and the softmax of the tile overlaps with the latter.
#pragma once
#include "prefill/sm90/producer.cuh"
#include "prefill/sm90/store.cuh"
#include "prefill/sm90/e4m3/q_rows.cuh"
#include "prefill/sm90/e4m3/softmax_step.cuh"

// Whether tiles after the first one of an item may need a mask: only the first one extends past the last key.
constexpr bool MASK_IN_LOOP = Variant::HAS_LOGITS_MASK;

inline void consumer_mainloop(const KernelParams& p, const Variant& variant, const Sm90Params& w,
                              const SmemTiles& tiles, const Pipeline& pipeline) {
  // shfl makes the value warp-uniform, so that ptxas keeps descriptors in uniform registers
  int warp = __shfl_sync(ALL_LANES, static_cast<int>(threadIdx.x) / 32, 0), warpgroup = warp / 4;
  int part = PARTS > 1 ? warpgroup : 0;  // of the rows, for tile classes
  bool lane_0 = threadIdx.x % 32 == 0, tma = use_tma(w);

  int n = 0;
  PipelineTile next = pipeline.consumer_wait_tile(n);
#pragma unroll 1
  for (int work_index = 0; !next.end(); ++work_index) {
    WorkTile work = pipeline.load_work(work_index);
    int partial = work.item.partial;
    QTile q_tile(work.item, work.kv_head);
    KvRange kv_range(p, variant, q_tile, work.item);
    float unit = qk_scale(p, q_tile.kv_head);
    QPipelineState q_state(work_index);
    SmemQ smem_q = tiles.q_stage(q_state.stage);
    mbarrier_wait(pipeline.q_full(q_state.stage), q_state.phase);
    QOperands q;
    float inverse[ROWS_PER_THREAD];
    round_q(q, smem_q, p, variant, q_tile, warp, inverse);
    __syncwarp();
    if (lane_0) mbarrier_arrive(pipeline.q_empty(q_state.stage));

    SummedOutputs o;
#pragma unroll
    for (int d = 0; d <= SUM_BLOCK; ++d)
#pragma unroll
      for (int e = 0; e < 4; ++e) o[d][e] = 0.f;
    float rounded_sum[ROWS_PER_THREAD] = {};  // of P as it was rounded
    // Takes the sums of a tile out of O. WGMMA keeps about 14 bits of a sum of 8-bit products, too few for all keys.
    auto take_sums = [&] {
#pragma unroll
      for (int r = 0; r < ROWS_PER_THREAD; ++r) rounded_sum[r] += o[SUM_BLOCK][2 * r];
#pragma unroll
      for (int e = 0; e < 4; ++e) clear_in_place(o[SUM_BLOCK][e]);
    };
    auto rescale_outputs = [&](const float(&factor)[ROWS_PER_THREAD]) {
#pragma unroll
      for (int r = 0; r < ROWS_PER_THREAD; ++r) rounded_sum[r] *= factor[r];
#pragma unroll
      for (int d = 0; d < SUM_BLOCK; ++d)
#pragma unroll
        for (int e = 0; e < 4; ++e) o[d][e] *= factor[e / 2];
    };
    SoftmaxE4m3 softmax(score_scale_log2(unit), inverse);
    ProbTile probs;

    auto issue_gemm_qk = [&](ScoreFragment& s, PipelineState state) {
      if (!tma) fence_view_async_shared();
      gemm_qk(s, q, tiles.k_stage(state.stage).base);
    };
    auto issue_gemm_pv = [&](PipelineState state) {
      mbarrier_wait(pipeline.v_full(state.stage), state.phase);
      gemm_pv(o, probs, tiles.v_stage(state.stage).base);
    };
    auto consumer_release_k = [&](PipelineState state) {
      __syncwarp();
      if (lane_0) mbarrier_arrive(pipeline.k_empty(state.stage));
    };
    auto consumer_release_v = [&](PipelineState state) {
      __syncwarp();
      if (lane_0) mbarrier_arrive(pipeline.v_empty(state.stage));
    };
    // Skips leading tiles that are fully masked for this warpgroup's rows, but never the last tile.
    bool no_rows = q_tile.rows <= 64 * warpgroup, active = false, last = false;
    while (true) {
      active = next.has_keys() && !no_rows && !next.skip(part);
      last = next.last();
      if (active || last) break;
      PipelineState state(n);
      consumer_release_k(state);
      mbarrier_wait(pipeline.v_full(state.stage), state.phase);
      consumer_release_v(state);
      next = pipeline.consumer_wait_tile(++n);
    }
    if (active) {
      ScoreFragment s;
      PipelineState state(n);
      ScoreTile tile = {p, variant, q_tile, kv_range, next.key, nullptr, unit};
      issue_gemm_qk(s, state);
      ScoreMask mask;
      bool masked = !next.full(part);
      if (masked) mask.evaluate(tile);
      Bias bias(tile);
      warpgroup_wait<0>();
      warpgroup_fence_operand(s[0]);
      consumer_release_k(state);
      float factor[ROWS_PER_THREAD];  // O is still 0
      SoftmaxTileE4m3{tile, mask, masked, bias}.finish_scores(s, inverse);
      softmax.step<true>(s, bias, probs, factor, [](float) {});
    } else {
      consumer_release_k(PipelineState(n));
    }
    ++n;
    if (!last) pipeline.consumer_wait(n);
#pragma unroll 1
    while (!last) {
      ScoreFragment s;
      PipelineState state(n), prev_state(n - 1);
      issue_gemm_qk(s, state);
      issue_gemm_pv(prev_state);
      next = pipeline.read_tile(n);  // after the GEMMs, which do not need it
      ScoreTile tile = {p, variant, q_tile, kv_range, next.key, nullptr, unit};
      ScoreMask mask;
      bool masked = MASK_IN_LOOP && !next.full(part);
      if (masked) mask.evaluate(tile);
      Bias bias(tile);
      warpgroup_wait<1>();
      warpgroup_fence_operand(s[0]);
      consumer_release_k(state);
      float factor[ROWS_PER_THREAD];
      SoftmaxTileE4m3{tile, mask, masked, bias}.finish_scores(s, inverse);
      bool grown = softmax.step<false>(s, bias, probs, factor, [&](float sum) {
        // ptxas would hoist the wait, and then nothing would overlap with gemm_pv
        scheduling_fence(sum, tiles.q.base);
        warpgroup_wait<0>();
        warpgroup_fence_operand(o);
        take_sums();
        consumer_release_v(prev_state);
      });
      if (grown) rescale_outputs(factor);
      last = next.last();
      ++n;
      if (!last) pipeline.consumer_wait(n);
    }
    PipelineState state(n - 1);
    if (active) {
      issue_gemm_pv(state);
      warpgroup_wait<0>();
      warpgroup_fence_operand(o);
      take_sums();
    } else {
      // also for a tile without keys: the producer commits it, and waits for the phase that this release ends
      mbarrier_wait(pipeline.v_full(state.stage), state.phase);
    }
    consumer_release_v(state);
    float factor[ROWS_PER_THREAD];
    SoftmaxState finished = softmax.finish(score_scale_log2(qk_scale(p, q_tile.kv_head)), rounded_sum, factor);
    rescale_outputs(factor);
    const OutputFragment& outputs = reinterpret_cast<const OutputFragment&>(o);
    tma_store_wait();
    store_rows(p, variant, outputs, finished, q_tile, partial, tiles.o, [&](float unit, unsigned staging) {
      store_o(p, w, variant, outputs, finished, unit, q_tile, warp, staging);
    });
    next = pipeline.consumer_wait_tile(n);
  }
  tma_store_wait();  // shared memory must outlive the TMA stores
}
