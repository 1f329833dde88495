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
#include "decode/linear_codes.cuh"
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
  // Sums of Q over the dims of each group of K, in the scale of S. For signed codes times their offset: where sums of S
  // begin.
  float q_sum_[LINEAR_KEYS ? ROW_BLOCKS : 1][LINEAR_KEYS ? K_SCALES : 1][2];
  // Rows 0 to 7 are sums over groups of V: of P times the scale for signed codes, else of P times the zero.
  float v_offset_[LINEAR_VALUES ? ROW_BLOCKS : 1][4] = {};
  ValueUnit v_unit_;
  const KvPipeline* pipeline_;  // of the step
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
      qk_scale_ *= CODE_UNIT;
      load_q_of_codes();
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
    if constexpr (LINEAR_KEYS)
      gemm_qk_codes(s, step);
    else
#endif  // ATTN_KV_FORMAT
    gemm_qk(s, pipeline.keys(stage), step);
    transform_scores(s, step);
    apply_mask(s, step);
    if constexpr (!Variant::PLAIN) update_row_max(s);
    compute_probabilities(s, step);
#ifdef ATTN_KV_FORMAT
    if constexpr (LINEAR_VALUES)
      gemm_pv_codes(s);
    else
#endif  // ATTN_KV_FORMAT
    gemm_pv(s, pipeline.values(stage));
  }

  // Stores this warp's partial of every row in shared memory.
  void store(const SmemPartials& partials) {
    float scale = output_scale(p_, q_tile_.kv_head);
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
            *partials.partial_o(warp, row(r), dim_of_value_code(t, high)) = output_of_codes(r, t, high) * scale;
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
      if constexpr (LINEAR_VALUES) v_offset_[r / 2][r % 2] *= factor;
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
#pragma unroll
      for (int n = 0; n < ROW_BLOCKS; ++n)
#pragma unroll
        for (int high = 0; high < 2; ++high)
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

  // Loads the fragments of Q in the order of codes, and sums Q over the groups of K.
  void load_q_of_codes() {
    constexpr int OF_GROUP = K_SCALE_GROUP / 16;
    unsigned one = pack2<f16>(1.f, 1.f), of_upper = pack2<f16>(KeyCodes::factor(1), KeyCodes::factor(1));
    unsigned ones[4] = {one, one, of_upper, of_upper};
#pragma unroll
    for (int n = 0; n < ROW_BLOCKS; ++n)
#pragma unroll
      for (int group = 0; group < K_SCALES; ++group) {
        float sums[4] = {};
#pragma unroll
        for (int k = group * OF_GROUP; k < (group + 1) * OF_GROUP; ++k) {
#pragma unroll
          for (int high = 0; high < 2; ++high) {
            int i = k % KeyCodes::STEPS * 2 + high, row = 8 * n + threadIdx.x % 32 / 4;
            unsigned at = smem_q_.at(row, 2 * dim_of_key_code(k / KeyCodes::STEPS, i));
            unsigned other = smem_q_.at(row, 2 * dim_of_key_code(k / KeyCodes::STEPS, i + KeyCodes::REGISTERS));
            float scale = 1.f / KeyCodes::factor(i);
            q_frag_[n][k][high] = pack2<f16>(unpack2<f16>(load_shared_2(at)).x * scale,
                                             unpack2<f16>(load_shared_2(other)).x * scale);
          }
          mma<f16>(sums, ones, q_frag_[n][k][0], q_frag_[n][k][1]);
        }
#pragma unroll
        for (int r = 0; r < 2; ++r)
          q_sum_[n][group][r] = sums[r] * ((K_CODES_SIGNED ? -KeyCodes::OFFSET : 1.f) / CODE_UNIT);
      }
  }

  // S^T = K Q^T over codes. Each group of dims has its own sums, to which its scale and zero are applied.
  void gemm_qk_codes(Scores& s, KvStep step) {
    constexpr int CHUNKS = K_CODE_BYTES / 16, OF_GROUP = LINEAR_KEYS ? CHUNKS / K_SCALES : 1;
    float start = 1.f / qk_scale_;
    for_each_score(s, step, [&](float& x, const LogitIndex& at, int) {
      if constexpr (BIAS_IN_ACCUMULATOR)
        x = scaled(variant_.logits_bias(at), start);
      else
        x = 0.f;
    });
#pragma unroll
    for (int m = 0; m < KEY_BLOCKS; ++m) {
      SideOf<K_SIDE_BYTES> sides[2] = {SideOf<K_SIDE_BYTES>(pipeline_->key_side(stage_, key_of_lane(m, 0))),
                                       SideOf<K_SIDE_BYTES>(pipeline_->key_side(stage_, key_of_lane(m, 2)))};
      unsigned words[4];
      float part[ROW_BLOCKS][4];
#pragma unroll
      for (int c = 0; c < CHUNKS; ++c) {
        if (c % 2 == 0) load_codes<false>(words, pipeline_->stored_keys(stage_), 16 * m, c / 2);
        int group = c / OF_GROUP;
        if (c % OF_GROUP == 0)
#pragma unroll
          for (int n = 0; n < ROW_BLOCKS; ++n)
#pragma unroll
            for (int e = 0; e < 4; ++e) part[n][e] = K_CODES_SIGNED ? q_sum_[n][group][e % 2] : 0.f;
#pragma unroll
        for (int u = 0; u < KeyCodes::STEPS; ++u) {
          unsigned a[4];
          key_fragment(a, words[c % 2 * 2], words[c % 2 * 2 + 1], u);
#pragma unroll
          for (int n = 0; n < ROW_BLOCKS; ++n) {
            const unsigned(&q)[2] = q_frag_[n][c * KeyCodes::STEPS + u];
            mma<f16>(part[n], a, q[0], q[1]);
          }
        }
        if (c % OF_GROUP != OF_GROUP - 1) continue;
#pragma unroll
        for (int half = 0; half < 2; ++half) {
          float scale = variant_.key_format.scale(sides[half], q_tile_.kv_head, group), zero = 0.f;
          if constexpr (!K_CODES_SIGNED) zero = variant_.key_format.zero(sides[half], q_tile_.kv_head, group);
#pragma unroll
          for (int n = 0; n < ROW_BLOCKS; ++n)
#pragma unroll
            for (int r = 0; r < 2; ++r) {
              float& x = s[m][n][2 * half + r];
              x += part[n][2 * half + r] * scale;
              if constexpr (!K_CODES_SIGNED) x += q_sum_[n][group][r] * zero;
            }
        }
      }
    }
  }

  // O^T += V^T P^T over codes. Each group of dims has its own P, to which its scales are applied.
  void gemm_pv_codes(const Scores& s) {
    constexpr int CHUNKS = V_CODE_BYTES / 16, OF_GROUP = LINEAR_VALUES ? CHUNKS / V_SCALES : 1;
    constexpr int FACTORS = V_CODES_SIGNED ? 1 : 2;  // the scale, and the zero
#pragma unroll
    for (int m = 0; m < KEY_BLOCKS; ++m) {
      float factors[2][V_SCALES][FACTORS], largest = 0.f;
#pragma unroll
      for (int half = 0; half < 2; ++half) {
        SideOf<V_SIDE_BYTES> side(pipeline_->value_side(stage_, key_of_lane(m, 2 * half)));
#pragma unroll
        for (int group = 0; group < V_SCALES; ++group) {
          factors[half][group][0] = variant_.format_of_values().scale(side, q_tile_.kv_head, group);
          if constexpr (!V_CODES_SIGNED)
            factors[half][group][1] = variant_.format_of_values().zero(side, q_tile_.kv_head, group);
#pragma unroll
          for (int i = 0; i < FACTORS; ++i) largest = fmaxf(largest, fabsf(factors[half][group][i]));
        }
      }
      if (__any_sync(ALL_LANES, !v_unit_.holds(largest))) rescale_output(v_unit_.grow(largest));
      float inverse = v_unit_.inverse();
      unsigned words[4], p[ROW_BLOCKS][2];
#pragma unroll
      for (int c = 0; c < CHUNKS; ++c) {
        if (c % 2 == 0) load_codes<true>(words, pipeline_->stored_values(stage_), 16 * m, c / 2);
        if (c % OF_GROUP == 0) {
          int group = c / OF_GROUP;
          unsigned one = threadIdx.x % 32 / 4 == group ? pack2<f16>(1.f, 1.f) : 0;
          unsigned row_of_group[4] = {one, 0, one, 0};
#pragma unroll
          for (int n = 0; n < ROW_BLOCKS; ++n) {
            unsigned summed[2];
#pragma unroll
            for (int half = 0; half < 2; ++half) {
              auto times = [&](float x) {
                return movmatrix_trans(pack2<f16>(s[m][n][2 * half] * x, s[m][n][2 * half + 1] * x));
              };
              p[n][half] = times(factors[half][group][0] * inverse);
              summed[half] = V_CODES_SIGNED ? p[n][half] : times(factors[half][group][FACTORS - 1] * inverse);
            }
            mma<f16>(v_offset_[n], row_of_group, summed[0], summed[1]);
          }
        }
#pragma unroll
        for (int u = 0; u < ValueCodes::STEPS; ++u) {
          unsigned a[4];
          value_fragment(a, words[c % 2 * 2], words[c % 2 * 2 + 1], u);
#pragma unroll
          for (int n = 0; n < ROW_BLOCKS; ++n) mma<f16>(o_[n][c * ValueCodes::STEPS + u], a, p[n][0], p[n][1]);
        }
      }
    }
  }

  // Multiplies all sums over values.
  void rescale_output(float factor) {
#pragma unroll
    for (int n = 0; n < ROW_BLOCKS; ++n) {
#pragma unroll
      for (float& x : v_offset_[n]) x *= factor;
#pragma unroll
      for (auto& tile : o_[n])
#pragma unroll
        for (float& x : tile) x *= factor;
    }
  }

  // The element of O that a lane's accumulator of codes stands for. A warp-wide call.
  float output_of_codes(int r, int t, int high) const {
    int group = ValueCodes::OF_CHUNK * (t / ValueCodes::STEPS) / V_SCALE_GROUP;
    float offset = __shfl_sync(ALL_LANES, v_offset_[r / 2][r % 2], 4 * group + threadIdx.x % 4);
    float codes = o_[r / 2][t][r % 2 + 2 * high] * (CODE_UNIT / ValueCodes::factor(t % ValueCodes::STEPS));
    return (codes + (V_CODES_SIGNED ? -ValueCodes::OFFSET * offset : offset)) * v_unit_.unit();
  }
#endif  // ATTN_KV_FORMAT
};

using DecodeMainloop = SwapAbMma;
