// The mainloop step of split-KV decode for one warp: swap-AB MMAs (S^T = K Q^T, O^T = V^T P^T) and online softmax over
// the keys that the warp owns.
//
// S^T is in blocks of 16 keys by 8 query rows. Lane l holds the keys l / 4 and l / 4 + 8 of the rows 2 * (l % 4) and
// 2 * (l % 4) + 1. O^T has the same layout with dims in place of keys.
#pragma once

#include "softmax/units.cuh"
#include "decode/operands.cuh"
#include "decode/partials.cuh"
#include "memory/kv_scales.cuh"
#ifdef ATTN_KV_FORMAT
#include "decode/code_products.cuh"
#include "decode/widen_rows.cuh"
#endif  // ATTN_KV_FORMAT

constexpr int ROW_BLOCKS = TILE_ROWS / 8;
constexpr int ROWS_PER_LANE = 2 * ROW_BLOCKS;  // query rows of which a lane holds scores
constexpr int KEY_BLOCKS = WARP_KEYS / 16;
static_assert(ROW_BLOCKS * 8 == TILE_ROWS, "whole blocks of rows");

// Q fragments stay in registers unless the head dim is so large that O needs the registers. Then each step reloads
// them.
constexpr bool Q_IN_REGISTERS = HEAD_DIM_QK <= 256 && HEAD_DIM_VO <= 256;

// The Q tile in shared memory: transformed rows in the element type of the QK^T MMA.
using DecodeSmemQ = RowTile<QkElem, TILE_ROWS, HEAD_DIM_QK>;

// A warp's fragments of Q and O and its softmax state.
class SwapAbMma {
  const KernelParams& p_;
  const Variant& variant_;
  const QTile& q_tile_;
  const KvRange& kv_range_;
  float qk_scale_;  // logit = qk_scale_ * (q . k)
  DecodeSmemQ smem_q_;
  unsigned q_frag_[ROW_BLOCKS][Q_IN_REGISTERS ? HEAD_DIM_QK / 16 : 1][2];
  float o_[ROW_BLOCKS][HEAD_DIM_VO / 16][4] = {};
  RowIndex at_[ROWS_PER_LANE];
  Bounds bounds_[ROWS_PER_LANE];  // the row's visible keys, where they are an interval
  float row_max_[ROWS_PER_LANE];  // in the scale of S: before qk_scale_, unless SCALE_LOGITS
  float row_sum_[ROWS_PER_LANE];  // over this lane's keys only
#ifdef ATTN_KV_FORMAT
  CodeProducts codes_{variant_};  // where products take codes
  const KvPipeline* pipeline_;    // of the step
  int stage_;
#endif  // ATTN_KV_FORMAT

  using Scores = float[KEY_BLOCKS][ROW_BLOCKS][4];

 public:
  using SmemQ = DecodeSmemQ;

  // `smem_q`: after the query transform.
  SwapAbMma(const KernelParams& p, const Variant& variant, const QTile& q_tile, const KvRange& kv_range, SmemQ smem_q)
      : p_(p), variant_(variant), q_tile_(q_tile), kv_range_(kv_range), smem_q_(smem_q) {
    qk_scale_ = qk_scale(p, q_tile.kv_head);
#ifdef ATTN_KV_FORMAT
    if constexpr (LINEAR_KEYS) {
      qk_scale_ *= KeyCodes::UNIT;
      codes_.load_q(q_frag_, smem_q_);
    } else
#endif  // ATTN_KV_FORMAT
    if constexpr (Q_IN_REGISTERS)
#pragma unroll
      for (int n = 0; n < ROW_BLOCKS; ++n)
#pragma unroll
        for (int k = 0; k < HEAD_DIM_QK / 16; ++k) load_q_fragment(q_frag_[n][k], n, k);
#pragma unroll
    for (int r = 0; r < ROWS_PER_LANE; ++r) {
      at_[r] = q_tile.at(p, q_tile.clamp_row(row(r)));
      if constexpr (Variant::HAS_BOUNDS) bounds_[r] = variant.kv_bounds(at_[r]);
      row_max_[r] = INITIAL_MAX;
      row_sum_[r] = 0.f;
    }
  }

  // Attends to the keys of one pipeline step: S = QK^T, hooks, mask, online softmax, O += PV.
  void step(const KvPipeline& pipeline, int stage, KvStep step) {
#ifdef ATTN_KV_FORMAT
    pipeline_ = &pipeline, stage_ = stage;
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
#ifdef ATTN_KV_FORMAT
    if constexpr (LINEAR_KEYS) {
      start_scores(s, step);
      codes_.gemm_qk(s, q_frag_, variant_, pipeline, stage, q_tile_.kv_head);
    } else
#endif  // ATTN_KV_FORMAT
    gemm_qk(s, pipeline.keys(stage), step);
    transform_scores(s, step);
    apply_mask(s, step);
    if constexpr (!Variant::PLAIN) update_row_max(s);
    compute_probabilities(s, step);
#ifdef ATTN_KV_FORMAT
    if constexpr (LINEAR_VALUES)
      codes_.gemm_pv(o_, s, variant_, pipeline, stage, q_tile_.kv_head);
    else
#endif  // ATTN_KV_FORMAT
    gemm_pv(s, pipeline.values(stage));
  }

  // Stores this warp's partial of every row in shared memory.
  void store(const SmemPartials& partials) {
    float scale = output_scale(p_, q_tile_.kv_head);
#ifdef ATTN_KV_FORMAT
    if constexpr (!LINEAR_VALUES) scale *= codes_.unit();
#endif  // ATTN_KV_FORMAT
    int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
#pragma unroll
    for (int r = 0; r < ROWS_PER_LANE; ++r) {
      float sum = row_sum_[r];
#pragma unroll
      for (int step = 4; step < 32; step *= 2) sum += __shfl_xor_sync(ALL_LANES, sum, step);
      if (lane < 4) *partials.md(warp, row(r)) = {Variant::PLAIN ? 0.f : row_max_[r] * score_scale(), sum};
#pragma unroll
      for (int t = 0; t < HEAD_DIM_VO / 16; ++t)
#pragma unroll
        for (int high = 0; high < 2; ++high)
#ifdef ATTN_KV_FORMAT
          if constexpr (LINEAR_VALUES)
            *partials.partial_o(warp, row(r), dim_of_value_code(t, high)) = codes_.output(o_, r, t, high) * scale;
          else
#endif  // ATTN_KV_FORMAT
          *partials.partial_o(warp, row(r), output_dim<ValueElem>(t, high)) = o_[r / 2][t][r % 2 + 2 * high] * scale;
    }
  }

 private:
  // This lane's r-th row.
  static int row(int r) { return r / 2 * 8 + threadIdx.x % 4 * 2 + r % 2; }
  // Index within the warp's step of the key of element e in the m-th block of keys.
  static int key_of_lane(int m, int e) { return 16 * m + e / 2 * 8 + threadIdx.x % 32 / 4; }

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
#pragma unroll
    for (int m = 0; m < KEY_BLOCKS; ++m)
#pragma unroll
      for (int e = 0; e < 4; ++e) {
        int kv_pos = position(step, key_of_lane(m, e));
#pragma unroll
        for (int n = 0; n < ROW_BLOCKS; ++n) {
          LogitIndex at;
          static_cast<RowIndex&>(at) = at_[2 * n + e % 2];
          if constexpr (!Variant::HAS_KV_LIST) at.kv_step = 16 * m + e / 2 * 8;
          at.kv_pos = kv_pos;
          at.kv_token = first_key_token(p_, q_tile_.request, at) + kv_pos;
          if constexpr (Variant::HAS_KV_LIST)
            at.kv_slot = kv_range_.slot(step.key + KvPipeline::first_key() + key_of_lane(m, e));
          f(s[m][n][e], at, 2 * n + e % 2);
        }
      }
  }

  // Passes the K or V rows of this warp's step through a row hook. `scale` multiplies the stored elements.
  template <class Row, class From, class To, class Hook>
  void apply_row_hook(From from, To to, KvStep step, float scale, Hook hook) {
    constexpr int LANES = Row::LANES_OF_ROW;
    // A hook may be long, so the loop is not unrolled: its code exists once.
#pragma unroll 1
    for (int first = 0; first < WARP_KEYS; first += 32 / LANES) {
      int key = first + threadIdx.x % 32 / LANES;
      Row values;
      load_hook_row(values, from, key);
      if (scale != 1.f) values.map([&](int, float x) { return x * scale; });
      hook(values, kv_index(q_tile_.request, q_tile_.kv_head, kv_range_.clamp(position(step, key))));
      store_hook_row(to, key, values);
    }
    __syncwarp();
  }

  // The operand B of the k-th 16 dims of a block of 8 query rows.
  void load_q_fragment(unsigned (&q)[2], int block, int k) const {
    int row = 8 * block + threadIdx.x % 32 / 4;
#pragma unroll
    for (int high = 0; high < 2; ++high)
      q[high] = load_shared_4(smem_q_.at(row, 2 * query_dim<KeyElem>(k / 2, k % 2, high)));
  }

  // S^T = K Q^T.
  void gemm_qk(Scores& s, WarpSmemK<KeyElem> keys, KvStep step) {
    // MMAs into one accumulator wait for each other: a single block of scores gets two accumulators.
    constexpr int SUMS = KEY_BLOCKS * ROW_BLOCKS == 1 ? 2 : 1;
    Scores part[SUMS];
    float start = 1.f / qk_scale_;
    if constexpr (BIAS_IN_ACCUMULATOR)
      for_each_score(part[0], step,
                     [&](float& x, const LogitIndex& at, int) { x = scaled(variant_.logits_bias(at), start); });
    else
#pragma unroll
      for (auto& of_keys : part[0])
#pragma unroll
        for (auto& of_rows : of_keys)
#pragma unroll
          for (float& x : of_rows) x = 0.f;
    if constexpr (SUMS == 2)
#pragma unroll
      for (float& x : part[1][0][0]) x = 0.f;
#pragma unroll
    for (int k = 0; k < (HEAD_DIM_QK + 16) / 32; ++k) {
      unsigned loaded[ROW_BLOCKS][2][2];
      if constexpr (!Q_IN_REGISTERS)
#pragma unroll
        for (int n = 0; n < ROW_BLOCKS; ++n)
#pragma unroll
          for (int u = 0; u < 2; ++u)
            if (2 * k + u < HEAD_DIM_QK / 16) load_q_fragment(loaded[n][u], n, 2 * k + u);
#pragma unroll
      for (int m = 0; m < KEY_BLOCKS; ++m) {
        unsigned a[2][4];
#ifdef ATTN_KV_FORMAT
        if constexpr (FRAGMENT_KEYS)
          decode_k_fragments(a, variant_.key_format, *pipeline_, stage_, q_tile_.kv_head, 16 * m, k);
        else
#endif  // ATTN_KV_FORMAT
        load_k_fragments<KeyElem>(a, keys, 16 * m, k);
#pragma unroll
        for (int n = 0; n < ROW_BLOCKS; ++n)
#pragma unroll
          for (int u = 0; u < 2; ++u)
            if (2 * k + u < HEAD_DIM_QK / 16) {
              const unsigned(&q)[2] = Q_IN_REGISTERS ? q_frag_[n][2 * k + u] : loaded[n][u];
              mma<QkElem>(part[u % SUMS][m][n], a[u], q[0], q[1]);
            }
      }
    }
#pragma unroll
    for (int m = 0; m < KEY_BLOCKS; ++m)
#pragma unroll
      for (int n = 0; n < ROW_BLOCKS; ++n)
#pragma unroll
        for (int e = 0; e < 4; ++e) s[m][n][e] = part[0][m][n][e] + (SUMS == 2 ? part[SUMS - 1][m][n][e] : 0.f);
  }

  // Scales S and applies the logits transform. A variant without a softmax gets its weights here.
  void transform_scores(Scores& s, KvStep step) {
    if constexpr (SCALE_LOGITS)
      for_each_score(s, step, [&](float& x, const LogitIndex& at, int) {
        if (Variant::STORES && !kv_range_.exists(at.kv_pos)) return;
        if constexpr (Variant::HAS_LOGITS_TRANSFORM)
          x = variant_.logits_transform(Logit(x, qk_scale_), at);
        else
          x *= qk_scale_;
        if constexpr (Variant::PLAIN) x = variant_.weight(x, 0.f, at);
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
    float new_max[ROWS_PER_LANE];
    bool grown = false;
#pragma unroll
    for (int r = 0; r < ROWS_PER_LANE; ++r) {
      new_max[r] = row_max_[r];
#pragma unroll
      for (int m = 0; m < KEY_BLOCKS; ++m)
        new_max[r] = fmaxf(new_max[r], fmaxf(s[m][r / 2][r % 2], s[m][r / 2][r % 2 + 2]));
      // NaN, hence false, while a row has seen no key
      grown |= (new_max[r] - row_max_[r]) * scale > RESCALE_THRESHOLD;
    }
    if (!__any_sync(ALL_LANES, grown)) return;
#pragma unroll
    for (int r = 0; r < ROWS_PER_LANE; ++r) {
#pragma unroll
      for (int step = 4; step < 32; step *= 2)
        new_max[r] = fmaxf(new_max[r], __shfl_xor_sync(ALL_LANES, new_max[r], step));
      float factor = new_max[r] == row_max_[r] ? 1.f : exp2_approx((row_max_[r] - new_max[r]) * scale);
      row_max_[r] = new_max[r];
      row_sum_[r] *= factor;
#ifdef ATTN_KV_FORMAT
      if constexpr (LINEAR_VALUES) codes_.rescale(r, factor);
#endif  // ATTN_KV_FORMAT
#pragma unroll
      for (int t = 0; t < HEAD_DIM_VO / 16; ++t) {
        o_[r / 2][t][r % 2] *= factor;
        o_[r / 2][t][r % 2 + 2] *= factor;
      }
    }
  }

  // Turns S into P in place and adds P to the row sums.
  void compute_probabilities(Scores& s, KvStep step) {
    float scale = score_scale_log2();
    float shift[ROWS_PER_LANE];
#pragma unroll
    for (int r = 0; r < ROWS_PER_LANE; ++r)
      shift[r] = row_max_[r] == NEG_INF ? 0.f : CUSTOM_WEIGHT ? row_max_[r] : row_max_[r] * scale;
    if constexpr (CUSTOM_WEIGHT) {
      for_each_score(s, step, [&](float& x, const LogitIndex& at, int r) {
        x = apply_weight(variant_, x, shift[r], at, __float_as_uint(x) != MASKED_BITS, row_sum_[r]);
      });
    } else {
#pragma unroll
      for (int m = 0; m < KEY_BLOCKS; ++m)
#pragma unroll
        for (int n = 0; n < ROW_BLOCKS; ++n)
#pragma unroll
          for (int e = 0; e < 4; ++e) {
            float& x = s[m][n][e];
            if constexpr (!Variant::PLAIN) x = exp2_approx(x * scale - shift[2 * n + e % 2]);
            row_sum_[2 * n + e % 2] += x;
            if constexpr (Variant::PLAIN && SAME<PvElem, f16>) x = saturate_f16(x);
          }
    }
  }

  // O^T += V^T P^T.
  void gemm_pv(const Scores& s, WarpSmemV<ValueElem> values) {
#pragma unroll
    for (int m = 0; m < KEY_BLOCKS; ++m) {
      unsigned p[ROW_BLOCKS][2];
#ifdef ATTN_KV_FORMAT
      float inverse = codes_.inverse_unit(o_, s[m], 1.f);
#endif  // ATTN_KV_FORMAT
#pragma unroll
      for (int n = 0; n < ROW_BLOCKS; ++n)
#pragma unroll
        for (int high = 0; high < 2; ++high)
#ifdef ATTN_KV_FORMAT
          if constexpr (FREE_WEIGHTS)
            p[n][high] = movmatrix_trans(pack2<PvElem>(s[m][n][2 * high] * inverse, s[m][n][2 * high + 1] * inverse));
          else
#endif  // ATTN_KV_FORMAT
          p[n][high] = movmatrix_trans(pack2<PvElem>(s[m][n][2 * high], s[m][n][2 * high + 1]));
#ifdef ATTN_KV_FORMAT
      if constexpr (FRAGMENT_VALUES) {
#pragma unroll
        for (int block = 0; block < HEAD_DIM_VO / 64; ++block) {
          unsigned a[4][4];
          decode_v_fragments(a, variant_.format_of_values(), *pipeline_, stage_, q_tile_.kv_head, 16 * m, block);
#pragma unroll
          for (int n = 0; n < ROW_BLOCKS; ++n)
#pragma unroll
            for (int t = 0; t < 4; ++t) mma<PvElem>(o_[n][4 * block + t], a[t], p[n][0], p[n][1]);
        }
        continue;
      }
#endif  // ATTN_KV_FORMAT
#pragma unroll
      for (int k = 0; k < (HEAD_DIM_VO + 16) / 32; ++k) {
        unsigned a[2][4];
        load_v_fragments<ValueElem>(a, values, 16 * m, k);
#pragma unroll
        for (int n = 0; n < ROW_BLOCKS; ++n)
#pragma unroll
          for (int u = 0; u < 2; ++u)
            if (2 * k + u < HEAD_DIM_VO / 16) mma<PvElem>(o_[n][2 * k + u], a[u], p[n][0], p[n][1]);
      }
    }
  }
#ifdef ATTN_KV_FORMAT

  // S before products of codes are added: zero, or the bias.
  void start_scores(Scores& s, KvStep step) {
    float start = 1.f / qk_scale_;
    for_each_score(s, step, [&](float& x, const LogitIndex& at, int) {
      if constexpr (BIAS_IN_ACCUMULATOR)
        x = scaled(variant_.logits_bias(at), start);
      else
        x = 0.f;
    });
  }
#endif  // ATTN_KV_FORMAT
};

using DecodeMainloop = SwapAbMma;
