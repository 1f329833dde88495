// The mainloop step of attention for few rows and one warp: products, hooks, mask and online softmax over the keys that
// the warp owns. `Mma` says how a lane holds scores and O, and multiplies: SwapAbMma on tensor cores, CudaCoreMma.
#pragma once

#include "decode/partials.cuh"
#include "memory/kv_scales.cuh"
#include "softmax/units.cuh"

template <class Mma>
class DecodeMainloop {
  using Scores = typename Mma::Scores;

  const KernelParams& p_;
  const Variant& variant_;
  const QTile& q_tile_;
  const KvRange& kv_range_;
  float qk_scale_;  // logit = qk_scale_ * (q . k)
  Mma mma_;
  RowIndex at_[Mma::ROWS];
  Bounds bounds_[Mma::ROWS];  // the row's visible keys, where they are an interval
  float row_max_[Mma::ROWS];  // in the scale of S: before qk_scale_, unless SCALE_LOGITS
  float row_sum_[Mma::ROWS];  // over this lane's keys only

 public:
  using SmemQ = typename Mma::SmemQ;

  // `smem_q`: after the query transform.
  DecodeMainloop(const KernelParams& p, const Variant& variant, const QTile& q_tile, const KvRange& kv_range,
                 SmemQ smem_q)
      : p_(p),
        variant_(variant),
        q_tile_(q_tile),
        kv_range_(kv_range),
        qk_scale_(qk_scale(p, q_tile.kv_head) * Mma::SCORE_UNIT),
        mma_(variant, smem_q) {
#pragma unroll
    for (int r = 0; r < Mma::ROWS; ++r) {
      at_[r] = q_tile.at(p, q_tile.clamp_row(Mma::row(r)));
      if constexpr (Variant::HAS_BOUNDS) bounds_[r] = variant.kv_bounds(at_[r]);
      row_max_[r] = INITIAL_MAX;
      row_sum_[r] = 0.f;
    }
  }

  // Attends to the keys of one pipeline step: S = QK^T, hooks, mask, online softmax, O += PV.
  void step(const KvPipeline& pipeline, int i, KvStep step) {
    rewrite_stage<Mma::WHOLE_PASSES>(p_, variant_, pipeline, i, q_tile_.kv_head, [&](int key) {
      return kv_index(q_tile_.request, q_tile_.kv_head, kv_range_.clamp(position(step, key)));
    });
    KvStage stage = pipeline.stage(i);
    Scores s;
    mma_.gemm_qk(s, [&](Scores& sums) { start_scores(sums, step); }, variant_, stage, q_tile_.kv_head);
    transform_scores(s, step);
    apply_mask(s, step);
    if constexpr (!Variant::PLAIN) update_row_max(s);
    compute_probabilities(s, step);
    mma_.gemm_pv(s, variant_, stage, q_tile_.kv_head);
  }

  // Stores this warp's partial of every row in shared memory.
  void store(const SmemPartials& partials) const {
    float scale = output_scale(p_, q_tile_.kv_head);
#pragma unroll
    for (int r = 0; r < Mma::ROWS; ++r) {
      float sum = Mma::sum_over_lanes(row_sum_[r]);
      if (Mma::stores_state())
        *partials.md(KvPipeline::key_warp(), Mma::row(r)) = {Variant::PLAIN ? 0.f : row_max_[r] * score_scale(), sum};
      mma_.store(partials, r, scale);
    }
  }

 private:
  // Whether this lane is the first of those that hold the scores of its keys.
  static bool leads() { return Mma::KEY_LANES == 1 || threadIdx.x % Mma::KEY_LANES == 0; }

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
    Mma::for_each_score(
        s, [&](int key) { return position(step, key); },
        [&](float& x, int r, int key, int kv_pos, int kv_step) {
          LogitIndex at;
          static_cast<RowIndex&>(at) = at_[r];
          if constexpr (!Variant::HAS_KV_LIST && Mma::HAS_KEY_STEPS) at.kv_step = kv_step;
          at.kv_pos = kv_pos;
          at.kv_token = first_key_token(p_, q_tile_.request, at) + kv_pos;
          if constexpr (Variant::HAS_KV_LIST) at.kv_slot = kv_range_.slot(step.key + KvPipeline::first_key() + key);
          f(x, at, r);
        });
  }

  // What sums of S begin with: the bias, or zero.
  void start_scores(Scores& s, KvStep step) {
    float start = 1.f / qk_scale_;
    if constexpr (BIAS_IN_ACCUMULATOR)
      for_each_score(s, step,
                     [&](float& x, const LogitIndex& at, int) { x = scaled(variant_.logits_bias(at), start); });
    else
      Mma::for_each_score(s, [](float& x, int) { x = 0.f; });
  }

  // Scales S and applies the logits transform. A variant without a softmax gets its weights here.
  void transform_scores(Scores& s, KvStep step) {
    if constexpr (BIAS_IN_ACCUMULATOR && !Mma::STARTS_WITH_BIAS)
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
        if constexpr (Variant::STORES && Mma::KEY_LANES > 1)
          x = __shfl_sync(ALL_LANES, x, threadIdx.x % 32 / Mma::KEY_LANES * Mma::KEY_LANES);
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
    float new_max[Mma::ROWS];
    bool grown = false;
#pragma unroll
    for (int r = 0; r < Mma::ROWS; ++r) {
      new_max[r] = Mma::max_of_row(s, r, row_max_[r]);
      // NaN, hence false, while a row has seen no key
      grown |= (new_max[r] - row_max_[r]) * scale > RESCALE_THRESHOLD;
    }
    if (!__any_sync(ALL_LANES, grown)) return;
#pragma unroll
    for (int r = 0; r < Mma::ROWS; ++r) {
      new_max[r] = Mma::max_over_lanes(new_max[r]);
      float factor = new_max[r] == row_max_[r] ? 1.f : exp2_approx((row_max_[r] - new_max[r]) * scale);
      row_max_[r] = new_max[r];
      row_sum_[r] *= factor;
      mma_.rescale(r, factor);
    }
  }

  // Turns S into P in place and adds P to the row sums.
  void compute_probabilities(Scores& s, KvStep step) {
    float scale = score_scale_log2();
    float shift[Mma::ROWS];
#pragma unroll
    for (int r = 0; r < Mma::ROWS; ++r)
      shift[r] = row_max_[r] == NEG_INF ? 0.f : CUSTOM_WEIGHT ? row_max_[r] : row_max_[r] * scale;
    if constexpr (CUSTOM_WEIGHT) {
      for_each_score(s, step, [&](float& x, const LogitIndex& at, int r) {
        bool counts = __float_as_uint(x) != MASKED_BITS;
        if constexpr (Mma::KEY_LANES > 1) counts = counts && leads();
        x = apply_weight(variant_, x, shift[r], at, counts, row_sum_[r]);
      });
    } else {
      Mma::for_each_score(s, [&](float& x, int r) {
        if constexpr (!Variant::PLAIN) x = exp2_approx(x * scale - shift[r]);
        if (leads()) row_sum_[r] += x;
        if constexpr (Variant::PLAIN && Mma::SATURATES_P) x = saturate_f16(x);
      });
    }
  }
};
