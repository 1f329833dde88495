// The mainloop step of attention on CUDA cores for one warp: products in f32, hooks, mask and online softmax over the
// keys that the warp owns. It needs no tensor cores and takes every element type, f32 too.
//
// After Q K^T a lane holds the scores of one key for every row of the warp.
#pragma once

#include "cuda_cores/products.cuh"
#include "decode/partials.cuh"
#include "memory/kv_scales.cuh"
#include "softmax/units.cuh"
#ifdef ATTN_KV_FORMAT
#include "decode/widen_rows.cuh"
#endif  // ATTN_KV_FORMAT

// A warp's softmax state and O.
class CudaCoreMainloop {
  const KernelParams& p_;
  const Variant& variant_;
  const QTile& q_tile_;
  const KvRange& kv_range_;
  float qk_scale_;  // logit = qk_scale_ * (q . k)
  CudaCoreSmemQ smem_q_;
  float o_[WARP_ROWS][LANE_DIMS] = {};
  RowIndex at_[WARP_ROWS];
  Bounds bounds_[WARP_ROWS];  // the row's visible keys, where they are an interval
  float row_max_[WARP_ROWS];  // in the scale of S: before qk_scale_, unless SCALE_LOGITS
  float row_sum_[WARP_ROWS];  // over this lane's keys only

  using Scores = float[WARP_ROWS];

 public:
  using SmemQ = CudaCoreSmemQ;

  // `smem_q`: after the query transform.
  CudaCoreMainloop(const KernelParams& p, const Variant& variant, const QTile& q_tile, const KvRange& kv_range,
                   SmemQ smem_q)
      : p_(p), variant_(variant), q_tile_(q_tile), kv_range_(kv_range), smem_q_(smem_q) {
    qk_scale_ = qk_scale(p, q_tile.kv_head);
#pragma unroll
    for (int r = 0; r < WARP_ROWS; ++r) {
      at_[r] = q_tile.at(p, q_tile.clamp_row(first_row() + r));
      if constexpr (Variant::HAS_BOUNDS) bounds_[r] = variant.kv_bounds(at_[r]);
      row_max_[r] = INITIAL_MAX;
      row_sum_[r] = 0.f;
    }
  }

  // Attends to the keys of one pipeline step: S = QK^T, hooks, mask, online softmax, O += PV.
  void step(const KvPipeline& pipeline, int stage, KvStep step) {
#ifdef ATTN_KV_FORMAT
    widen_stage(p_, variant_, pipeline, stage, q_tile_.kv_head, [&](int key) {
      return kv_index(q_tile_.request, q_tile_.kv_head, kv_range_.clamp(position(step, key)));
    });
#else  // ATTN_KV_FORMAT
    if constexpr (Variant::HAS_KEY_TRANSFORM)
      apply_row_hook<HookRow<HEAD_DIM_QK>>(
          pipeline.stored_keys(stage), pipeline.keys(stage), step, key_scale(p_, q_tile_.kv_head),
          [&](HookRow<HEAD_DIM_QK>& key, const KvIndex& at) { variant_.key_transform(key, at); });
    if constexpr (Variant::HAS_VALUE_TRANSFORM)
      apply_row_hook<HookRow<HEAD_DIM_VO>>(
          pipeline.stored_values(stage), pipeline.values(stage), step, value_scale(p_, q_tile_.kv_head),
          [&](HookRow<HEAD_DIM_VO>& value, const KvIndex& at) { variant_.value_transform(value, at); });
#endif  // ATTN_KV_FORMAT
    Scores s;
    gemm_qk(s, smem_q_, first_row(), pipeline.keys(stage));
    transform_scores(s, step);
    apply_mask(s, step);
    if constexpr (!Variant::PLAIN) update_row_max(s);
    compute_probabilities(s, step);
    __syncwarp();  // the probabilities of all lanes are in shared memory
    gemm_pv(o_, smem_q_, pipeline.values(stage));
  }

  // Stores this warp's partial of every row in shared memory.
  void store(const SmemPartials& partials) {
    float scale = output_scale(p_, q_tile_.kv_head);
#pragma unroll
    for (int r = 0; r < WARP_ROWS; ++r) {
      float sum = row_sum_[r];
#pragma unroll
      for (int step = 1; step < 32; step *= 2) sum += __shfl_xor_sync(ALL_LANES, sum, step);
      int row = first_row() + r;
      if (threadIdx.x % 32 == 0)
        *partials.md(KvPipeline::key_warp(), row) = {Variant::PLAIN ? 0.f : row_max_[r] * score_scale(), sum};
#pragma unroll
      for (int pass = 0; pass < VALUE_PASSES; ++pass)
        if (has_output(pass))
#pragma unroll
          for (int i = 0; i < VALUE_ELEMS; ++i)
            partials.partial_o(KvPipeline::key_warp(), row, output_dim(pass))[i] =
                o_[r][pass * VALUE_ELEMS + i] * scale;
    }
  }

 private:
  // The warp's first row in the Q tile.
  static int first_row() { return threadIdx.x / 32 % ROW_WARPS * WARP_ROWS; }
  // Whether this lane is the first of those that hold the scores of its key.
  static bool leads() { return LANES_PER_KEY == 1 || threadIdx.x % LANES_PER_KEY == 0; }

  // Factors from the scale of S to logits, and to exponents of 2.
  float score_scale() const { return SCALE_LOGITS ? 1.f : qk_scale_; }
  float score_scale_log2() const { return score_scale() * LOG2_E; }

  // Position in the request of one of the warp's keys; KvRange::exists says whether there is one. A warp-wide call.
  static int position(KvStep step, int key) {
    return Variant::HAS_KV_LIST ? __shfl_sync(ALL_LANES, step.position, key) : step.key + KvPipeline::first_key() + key;
  }

  // Calls f(score, coordinates, r) for each of this lane's scores.
  template <class F>
  void for_each_score(Scores& s, KvStep step, F f) {
    int kv_pos = position(step, key_of_lane());
#pragma unroll
    for (int r = 0; r < WARP_ROWS; ++r) {
      LogitIndex at;
      static_cast<RowIndex&>(at) = at_[r];
      at.kv_pos = kv_pos;
      at.kv_token = first_key_token(p_, q_tile_.request, at) + kv_pos;
      if constexpr (Variant::HAS_KV_LIST)
        at.kv_slot = kv_range_.slot(step.key + KvPipeline::first_key() + key_of_lane());
      f(s[r], at, r);
    }
  }

  // Passes the K or V rows of this warp's step through a row hook; warps that share keys share the rows. `scale`
  // multiplies the stored elements.
  template <class Row, class From, class To, class Hook>
  void apply_row_hook(From from, To to, KvStep step, float scale, Hook hook) {
    constexpr int ROWS = 32 / Row::LANES_OF_ROW;  // that a warp holds at once
    // A hook may be long, so the loop is not unrolled: its code exists once.
#pragma unroll 1
    for (int first = threadIdx.x / 32 % ROW_WARPS * ROWS; first < WARP_KEYS; first += ROWS * ROW_WARPS) {
      int own = first + threadIdx.x % 32 / Row::LANES_OF_ROW, key = min(own, WARP_KEYS - 1);
      Row values;
      load_hook_row(values, from, key);
      if (scale != 1.f) values.map([&](int, float x) { return x * scale; });
      hook(values, kv_index(q_tile_.request, q_tile_.kv_head, kv_range_.clamp(position(step, key))));
      __syncwarp();  // all lanes have read
      if (own < WARP_KEYS) store_hook_row(to, key, values);
    }
    KvPipeline::sync();
  }

  // Applies the logits transform, which takes scaled scores. A variant without a softmax gets its weights here.
  void transform_scores(Scores& s, KvStep step) {
    if constexpr (BIAS_IN_ACCUMULATOR)
      for_each_score(s, step, [&](float& x, const LogitIndex& at, int) {
        x += scaled(variant_.logits_bias(at), 1.f / qk_scale_);
      });
    if constexpr (SCALE_LOGITS)
      for_each_score(s, step, [&](float& x, const LogitIndex& at, int) {
        // what a hook stores is stored once
        bool calls = !Variant::STORES || (leads() && kv_range_.exists(at.kv_pos));
        if (calls) {
          if constexpr (Variant::HAS_LOGITS_TRANSFORM)
            x = variant_.logits_transform(Logit(x, qk_scale_), at);
          else
            x *= qk_scale_;
          if constexpr (Variant::PLAIN) x = variant_.weight(x, 0.f, at);
        }
        if constexpr (Variant::STORES && LANES_PER_KEY > 1)
          x = __shfl_sync(ALL_LANES, x, threadIdx.x % 32 / LANES_PER_KEY * LANES_PER_KEY);
      });
  }

  // Masks keys that do not exist and those that the mask hides. Full steps skip it.
  void apply_mask(Scores& s, KvStep step) {
    bool all =
        (step.full || !Variant::HAS_LOGITS_MASK) &&
        (Variant::HAS_KV_LIST ? step.all_exist : step.key + KvPipeline::first_key() + WARP_KEYS <= kv_range_.end());
    if (all) return;
    for_each_score(s, step, [&](float& x, const LogitIndex& at, int r) {
      bool counts = kv_range_.exists(at.kv_pos);
      if constexpr (Variant::HAS_BOUNDS)
        counts = counts && in_bounds(bounds_[r], at.kv_pos);
      else if constexpr (Variant::HAS_LOGITS_MASK)
        if (!step.full) counts = counts && variant_.logits_mask(at);
      if (!counts) x = __uint_as_float(MASKED_BITS);
    });
  }

  // Online softmax with lazy rescaling: updates the row max and rescales O and the row sum, but only if any lane of the
  // warp saw its row max grow by more than RESCALE_THRESHOLD.
  void update_row_max(const Scores& s) {
    float scale = score_scale_log2();
    float new_max[WARP_ROWS];
    bool grown = false;
#pragma unroll
    for (int r = 0; r < WARP_ROWS; ++r) {
      new_max[r] = fmaxf(row_max_[r], s[r]);
      // NaN, hence false, while a row has seen no key
      grown |= (new_max[r] - row_max_[r]) * scale > RESCALE_THRESHOLD;
    }
    if (!__any_sync(ALL_LANES, grown)) return;
#pragma unroll
    for (int r = 0; r < WARP_ROWS; ++r) {
#pragma unroll
      for (int step = LANES_PER_KEY; step < 32; step *= 2)
        new_max[r] = fmaxf(new_max[r], __shfl_xor_sync(ALL_LANES, new_max[r], step));
      float factor = new_max[r] == row_max_[r] ? 1.f : exp2_approx((row_max_[r] - new_max[r]) * scale);
      row_max_[r] = new_max[r];
      row_sum_[r] *= factor;
#pragma unroll
      for (float& x : o_[r]) x *= factor;
    }
  }

  // Turns scores into probabilities, stores them for gemm_pv and adds them to the row sums.
  void compute_probabilities(Scores& s, KvStep step) {
    float scale = score_scale_log2();
    float shift[WARP_ROWS];
#pragma unroll
    for (int r = 0; r < WARP_ROWS; ++r)
      shift[r] = row_max_[r] == NEG_INF ? 0.f : CUSTOM_WEIGHT ? row_max_[r] : row_max_[r] * scale;
    if constexpr (CUSTOM_WEIGHT) {
      for_each_score(s, step, [&](float& x, const LogitIndex& at, int r) {
        bool counts = __float_as_uint(x) != MASKED_BITS && leads();
        x = apply_weight(variant_, x, shift[r], at, counts, row_sum_[r]);
      });
    } else {
#pragma unroll
      for (int r = 0; r < WARP_ROWS; ++r) {
        if constexpr (!Variant::PLAIN) s[r] = exp2_approx(s[r] * scale - shift[r]);
        if (leads()) row_sum_[r] += s[r];
      }
    }
    if (leads())
#pragma unroll
      for (int r = 0; r < WARP_ROWS; ++r) store_shared_4(smem_q_.prob(r, key_of_lane()), __float_as_uint(s[r]));
  }
};

using DecodeMainloop = CudaCoreMainloop;
