// Consumer mainloop of sm_90 prefill for work items whose keys fit one KV tile. K and V stay in shared memory while the
// warpgroups take the item's Q tiles in turn, each at its own pace, so that one computes softmax while another computes
// GEMMs or stores O. Short prompts are bound by the steps of a single tile and by memory, not by MMAs.
#pragma once
#include "prefill/sm90/resident/producer.cuh"
#include "prefill/sm90/store.cuh"
#include "prefill/sm90/exact/warpgroup_tile.cuh"
#include "prefill/sm90/exact/zero_v_rows.cuh"

// The planner never splits these items along their keys, so that there are no partials.
constexpr int NOT_SPLIT = -1;

// S, and then O: P is in registers of its own by then. ptxas would keep both in registers of their own.
using Accumulators = float[ROW_BLOCKS][(TILE_KEYS > COLUMNS ? TILE_KEYS : COLUMNS) / 8][4];

inline void consumer_mainloop(const KernelParams& p, const Variant& variant, const Sm90Params& w,
                              const SmemTiles& tiles, const Pipeline& pipeline) {
  // shfl makes the value warp-uniform, so that ptxas keeps descriptors in uniform registers
  int warp = __shfl_sync(ALL_LANES, static_cast<int>(threadIdx.x) / 32, 0), warpgroup = warp / 4;
  int lane = threadIdx.x % 32;
  bool tma = use_tma(w), v_by_tma = tma || VLoader<false>::USES_TMA;
  auto release = [&](unsigned barrier) {
    __syncwarp();
    if (lane == 0) mbarrier_arrive(barrier);
  };
  // One warpgroup releases Q, where the barrier counts the warps of all.
  auto release_q = [&](unsigned barrier) {
    __syncwarp();
    if (lane < WARPGROUPS) mbarrier_arrive(barrier);
  };

  int n = 0, tile_rows = q_tile_rows(p, w);
  int q_index = warpgroup;  // of this warpgroup's next Q tile
  int item_q_index = 0;     // of the item's first one
  PipelineTile next = pipeline.consumer_wait_tile(n);
#pragma unroll 1
  while (!next.end()) {
    WorkTile work = pipeline.load_work(n);
    PipelineState state(n);
    SmemV smem_v = tiles.v_stage(state.stage);
    float unit = qk_scale(p, work.kv_head), scale = score_scale_log2(unit);
    bool v_arrived = false, released = false;
#pragma unroll 1
    for (int first = (q_index - item_q_index) * tile_rows; first < work.item.rows;
         first += WARPGROUPS * tile_rows, q_index += WARPGROUPS) {
      bool last = first + WARPGROUPS * tile_rows >= work.item.rows;
      WorkItem item = warpgroup_item(work.item, first, tile_rows, warpgroup);
      QTile q_tile(item, work.kv_head);
      KvRange kv_range(p, variant, q_tile, item);
      QPipelineState q_state(q_index);
      SmemQ smem_q = rows_of_stage(tiles, q_state.stage);
      WarpgroupQ q(smem_q, warp, scale);
      mbarrier_wait(pipeline.q_full(q_state.stage), q_state.phase);
      q.transform(p, variant, q_tile);

      Accumulators accumulators;
      ScoreFragment& s = *reinterpret_cast<ScoreFragment*>(&accumulators);
      OutputFragment& o = *reinterpret_cast<OutputFragment*>(&accumulators);
      RowMaxState max_state(variant, q_tile);
      WarpgroupSoftmax softmax(max_state, q, unit);
      if (next.has_keys()) {
        ProbTile probs;
        ScoreTile tile = {p, variant, q_tile, kv_range, next.key, nullptr, unit};
        if (!tma) fence_view_async_shared();
        start_gemm_qk(s, q, tile, tiles.k_stage(state.stage).base);
        ScoreMask mask;
        mask.evaluate(tile);
        Bias bias(tile);
        warpgroup_wait<0>();
        warpgroup_fence_operand(s[0]);
        release_q(pipeline.q_empty(q_state.stage));
        if (last) release(pipeline.k_empty(state.stage));
        float factor[ROWS_PER_THREAD];
        SoftmaxTile softmax_tile = {tile, mask, true, bias, q};
        softmax.first_step(s, factor, probs, max_state, softmax_tile);
        if (!v_arrived) {
          mbarrier_wait(pipeline.v_full(state.stage), state.phase);
          // TMA can load rows past the last key; cp.async loads are clamped to keys that exist. Each warpgroup writes
          // the same zeros for itself, since the other ones may be a work item ahead.
          if (v_by_tma && next.key + TILE_KEYS > kv_range.end())
            zero_v_rows<128>(WARPGROUP_BARRIER + warpgroup, threadIdx.x % 128, smem_v, kv_range.end() - next.key);
          v_arrived = true;
        }
        if (!tma) fence_view_async_shared();
        clear(o);
        gemm_pv(o, probs, smem_v.base);
        warpgroup_wait<0>();
        warpgroup_fence_operand(o[0]);
        if (last) release(pipeline.v_empty(state.stage));
        released = last;
      } else {
        clear(o);
        release_q(pipeline.q_empty(q_state.stage));
      }
      tma_store_wait();
      auto write = [&](float unit, unsigned staging) {
        store_o(p, w, variant, o, softmax.state, unit, q_tile, warp, staging);
      };
      store_rows(p, variant, o, softmax.state, q_tile, NOT_SPLIT, tiles.o, write);
    }
    if (!released) {  // the warpgroup has no Q tile of the item, or the item has no keys
      release(pipeline.k_empty(state.stage));
      // the producer commits V of any item, and waits for the phase that this release ends
      mbarrier_wait(pipeline.v_full(state.stage), state.phase);
      release(pipeline.v_empty(state.stage));
    }
    item_q_index += q_tiles(work.item, tile_rows);
    next = pipeline.consumer_wait_tile(++n);
  }
  tma_store_wait();  // shared memory must outlive the TMA stores
}
