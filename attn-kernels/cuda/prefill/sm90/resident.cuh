// Mainloop of sm_90 prefill for work items whose keys fit one KV tile, in place of mainloop.cuh. K and V stay in shared
// memory while the warpgroups take the item's Q tiles one after the other. Each warpgroup has its own pace, so that one
// computes softmax while another computes GEMMs, and may be a Q stage ahead. Short prompts are bound by the steps of a
// single tile and by memory, not by MMAs.
#pragma once
#include "prefill/sm90/resident_producer.cuh"
#include "prefill/sm90/store.cuh"
#include "arch/wgmma.cuh"
#include "prefill/sm90/softmax_step.cuh"

// Whether O has its own shared memory or needs none.
constexpr bool SEPARATE_O_SMEM = OUTPUTS_STAGED || STORE_FROM_REGISTERS;
static_assert(SEPARATE_O_SMEM && Q_STAGES == 2, "a warpgroup stores O while another one reads Q");

// The planner never splits these items along their keys, so that there are no partials.
constexpr int NOT_SPLIT = -1;

// Zeroes rows of V from `first` on: P is 0 where there is no key, but 0 * NaN is not 0. Each warpgroup does it for
// itself and writes the same zeros, since the other ones may be a work item ahead.
inline void zero_v_rows(SmemV smem_v, int first, int warpgroup) {
  constexpr int CHUNKS = SmemV::BYTES / (TILE_KEYS * 16);
  for (int i = threadIdx.x % 128; i < (TILE_KEYS - first) * CHUNKS; i += 128)
    store_shared_16(smem_v.at(first + i / CHUNKS, i % CHUNKS), make_uint4(0, 0, 0, 0));
  fence_view_async_shared();
  named_barrier_sync(WARPGROUP_BARRIER + warpgroup, 128);
}

inline void consumer_mainloop(const KernelParams& p, const Variant& variant, const Sm90Params& w,
                              const SmemTiles& tiles, const Pipeline& pipeline) {
  // shfl makes the value warp-uniform, so that ptxas keeps descriptors in uniform registers
  int warp = __shfl_sync(ALL_LANES, static_cast<int>(threadIdx.x) / 32, 0), warpgroup = warp / 4;
  bool lane_0 = threadIdx.x % 32 == 0, tma = use_tma(w), v_by_tma = tma || VLoader<false>::USES_TMA;
  auto release = [&](unsigned barrier) {
    __syncwarp();
    if (lane_0) mbarrier_arrive(barrier);
  };

  int n = 0, q_index = 0;
  PipelineTile next = pipeline.consumer_wait_tile(n);
#pragma unroll 1
  while (!next.end()) {
    WorkTile work = pipeline.load_work(n);
    PipelineState state(n);
    SmemV smem_v = tiles.v_stage(state.stage);
    float unit = qk_scale(p, work.kv_head), scale = score_scale_log2(unit);
    bool v_arrived = false;
#pragma unroll 1
    for (int first = 0; first < work.item.rows; first += TILE_ROWS, ++q_index) {
      WorkItem item = q_tile_item(work.item, first);
      QTile q_tile(item, work.kv_head);
      KvRange kv_range(p, variant, q_tile, item);
      QPipelineState q_state(q_index);
      SmemQ smem_q = tiles.q_stage(q_state.stage);
      SmemDescriptor desc_q = make_smem_descriptor(smem_q.base + warpgroup * 64 * 128, 16);
      mbarrier_wait(pipeline.q_full(q_state.stage), q_state.phase);
      if constexpr (TRANSFORM_Q) {
        transform_q<64, 128, HookRow<HEAD_DIM_QK>>(smem_q, p, variant, q_tile, 64 * warpgroup, threadIdx.x % 128);
        fence_view_async_shared();
        named_barrier_sync(WARPGROUP_BARRIER + warpgroup, 128);
      }

      OutputFragment o;
      clear(o);
      RowMaxState max_state = {use_static_max(variant, q_tile.request.kv_len)};
      SoftmaxState softmax(max_state.is_static);
      if (next.has_keys() && q_tile.rows > 64 * warpgroup) {
        ProbTile probs;
        ScoreFragment s;
        ScoreTile tile = {p, variant, q_tile, kv_range, next.key, nullptr, unit};
        if (!tma) fence_view_async_shared();
        if constexpr (BIAS_IN_ACCUMULATOR) init_scores(s, tile);
        gemm_qk(s, desc_q, tiles.k_stage(state.stage).base);
        ScoreMask mask;
        mask.evaluate(tile);
        Bias bias(tile);
        warpgroup_wait<0>();
        warpgroup_fence_operand(s[0]);
        release(pipeline.q_empty(q_state.stage));
        float factor[ROWS_PER_THREAD];  // O is still 0
        SoftmaxTile softmax_tile = {tile, &mask, bias, scale, smem_q};
        softmax_step<true>(s, softmax, factor, max_state, softmax_tile, [&](int chunk, bool, auto&) {
          pack_probs(*reinterpret_cast<ProbFragment*>(&probs[chunk]), s, chunk);
        });
        if (!v_arrived) {
          mbarrier_wait(pipeline.v_full(state.stage), state.phase);
          // TMA can load rows past the last key; cp.async loads are clamped to keys that exist
          if (v_by_tma && next.key + TILE_KEYS > kv_range.end())
            zero_v_rows(smem_v, kv_range.end() - next.key, warpgroup);
          v_arrived = true;
        }
        if (!tma) fence_view_async_shared();
        gemm_pv(o, probs, smem_v.base);
        warpgroup_wait<0>();
        warpgroup_fence_operand(o[0]);
      } else {
        release(pipeline.q_empty(q_state.stage));
      }
      if constexpr (OUTPUTS_STAGED) tma_store_wait();
      auto write = [&](float unit, unsigned staging) {
        store_o(p, w, variant, o, softmax, unit, q_tile, warp, staging);
      };
      store_rows(p, variant, o, softmax, q_tile, NOT_SPLIT, tiles.o, write);
    }
    // also for a tile without keys: the producer commits it, and waits for the phase that this release ends
    if (!v_arrived) mbarrier_wait(pipeline.v_full(state.stage), state.phase);
    release(pipeline.k_empty(state.stage));
    release(pipeline.v_empty(state.stage));
    next = pipeline.consumer_wait_tile(++n);
  }
  if constexpr (OUTPUTS_STAGED) tma_store_wait();  // shared memory must outlive the TMA stores
}
