// The products of decode over linear codes of KV formats.
#pragma once
#include "decode/swap_ab_layout.cuh"
#include "decode/value_unit.cuh"

// S^T = K Q^T over linear codes. Scales of groups of dims are applied to sums, those of small groups to codes.
class KeyCodeProduct {
  // Where codes are whole numbers: sums of Q over the dims of each group of K, in the scale of S. For signed codes
  // times their offset: where sums of S begin.
  static constexpr bool SUMS_Q = LINEAR_KEYS && KeyCodes::WHOLE;
  unsigned q_frag_[ROW_BLOCKS][HEAD_DIM_QK / 16][2];
  float q_sum_[SUMS_Q ? ROW_BLOCKS : 1][K_SCALES][2];
  KeyCodes::Levels levels_;

  // The operand B of the k-th 16 dims: of each code the element of Q that it meets.
  static void load_q_fragment(unsigned (&q)[2], SwapAbSmemQ smem_q, int row, int k) {
#pragma unroll
    for (int high = 0; high < 2; ++high) {
      int i = k % KeyCodes::STEPS * 2 + high, chunk = k / KeyCodes::STEPS;
      auto element = [&](int i) {
        return unpack2<f16>(load_shared_2(smem_q.at(row, 2 * dim_of_key_code(chunk, i)))).x / KeyCodes::factor(i);
      };
      q[high] = pack2<f16>(element(i), element(i + KeyCodes::REGISTERS));
    }
  }

 public:
  static constexpr float UNIT = KeyCodes::UNIT;  // what sums are multiplied by

  // Loads the fragments of Q in the order of codes, and sums Q over the groups of K where sums are needed.
  KeyCodeProduct(const Variant& variant, SwapAbSmemQ smem_q) : levels_(variant.key_format) {
    constexpr int OF_GROUP = HEAD_DIM_QK / 16 / K_SCALES;
    unsigned one = pack2<f16>(1.f, 1.f), of_upper = pack2<f16>(KeyCodes::factor(1), KeyCodes::factor(1));
    unsigned ones[4] = {one, one, of_upper, of_upper};
#pragma unroll
    for (int n = 0; n < ROW_BLOCKS; ++n)
#pragma unroll
      for (int group = 0; group < K_SCALES; ++group) {
        float sums[4] = {};
#pragma unroll
        for (int k = group * OF_GROUP; k < (group + 1) * OF_GROUP; ++k) {
          load_q_fragment(q_frag_[n][k], smem_q, query_row_of_lane(n), k);
          if constexpr (SUMS_Q) mma<f16>(sums, ones, q_frag_[n][k][0], q_frag_[n][k][1]);
        }
        if constexpr (SUMS_Q)
#pragma unroll
          for (int r = 0; r < 2; ++r)
            q_sum_[n][group][r] = sums[r] * ((KeyCodes::SIGNED ? -KeyCodes::OFFSET : 1.f) / KeyCodes::UNIT);
      }
  }

  // S^T = K Q^T. Each group of dims has its own sums, to which its scale and zero are applied. `start` writes what S
  // begins with.
  template <class Start>
  void multiply(SwapAbScores& s, Start start, const Variant& variant, KvStage stage, int kv_head) const {
    start(s);
    constexpr int CHUNKS = K_CODE_BYTES / 16, OF_GROUP = LINEAR_KEYS ? CHUNKS / K_SCALES : 1;
#pragma unroll
    for (int m = 0; m < KEY_BLOCKS; ++m) {
      // scales of lanes that differ are read at offsets that differ, which registers cannot be
      using Side = Choose<SCALE_KEY_CODES, SharedSide, SideOf<K_SIDE_BYTES>>;
      Side sides[2] = {Side(stage.key_side(key_of_lane(m, 0))), Side(stage.key_side(key_of_lane(m, 1)))};
      unsigned words[4];
      float part[ROW_BLOCKS][4];
#pragma unroll
      for (int c = 0; c < CHUNKS; ++c) {
        if (c % 2 == 0) load_codes<false>(words, stage.stored_keys(), 16 * m, c / 2);
        int group = c / OF_GROUP;
        if (c % OF_GROUP == 0)
#pragma unroll
          for (int n = 0; n < ROW_BLOCKS; ++n)
#pragma unroll
            for (int e = 0; e < 4; ++e) {
              part[n][e] = 0.f;
              if constexpr (KeyCodes::SIGNED) part[n][e] = q_sum_[n][group][e % 2];
            }
        unsigned scales[2] = {};
        if constexpr (SCALE_KEY_CODES)
#pragma unroll
          for (int half = 0; half < 2; ++half) {
            float scale = variant.key_format.scale(sides[half], kv_head, dim_of_key_code(c, 0) / K_SCALE_GROUP);
            scales[half] = pack2<f16>(scale, scale);
          }
        // of the keys 0 to 7, and 8 to 15
        KeyWord low(words[c % 2 * 2], levels_, scales[0]), high(words[c % 2 * 2 + 1], levels_, scales[1]);
#pragma unroll
        for (int u = 0; u < KeyCodes::STEPS; ++u) {
          unsigned a[4] = {low[2 * u], high[2 * u], low[2 * u + 1], high[2 * u + 1]};
#pragma unroll
          for (int n = 0; n < ROW_BLOCKS; ++n) {
            const unsigned(&q)[2] = q_frag_[n][c * KeyCodes::STEPS + u];
            mma<f16>(part[n], a, q[0], q[1]);
          }
        }
        if (c % OF_GROUP != OF_GROUP - 1) continue;
#pragma unroll
        for (int half = 0; half < 2; ++half) {
          float scale = 1.f, zero = 0.f;
          if constexpr (!SCALE_KEY_CODES) scale = variant.key_format.scale(sides[half], kv_head, group);
          if constexpr (KeyCodes::HAS_ZERO) zero = variant.key_format.zero(sides[half], kv_head, group);
#pragma unroll
          for (int n = 0; n < ROW_BLOCKS; ++n)
#pragma unroll
            for (int r = 0; r < 2; ++r) {
              float& x = s[m][n][2 * half + r];
              x += part[n][2 * half + r] * scale;
              if constexpr (KeyCodes::HAS_ZERO) x += q_sum_[n][group][r] * zero;
            }
        }
      }
    }
  }
};

// O^T = V^T P^T over linear codes. Scales of groups of dims are applied to P, those of small groups to codes.
class ValueCodeProduct {
  static constexpr bool HAS_OFFSET = LINEAR_VALUES && ValueCodes::WHOLE;
  SwapAbOutput o_ = {};
  // Rows 0 to 7 are sums over groups of V: of P times the scale for signed codes, else of P times the zero.
  float offset_[HAS_OFFSET ? ROW_BLOCKS : 1][4] = {};
  ValueUnit unit_;
  ValueCodes::Levels levels_;

  // The scales of this lane's two keys in a half of the m-th block, of the group of its codes of the c-th chunk.
  static unsigned scales_of_values(const Variant& variant, KvStage stage, int kv_head, int m, int half, int c) {
    auto scale = [&](int i) {
      SharedSide side = stage.value_side(16 * m + 8 * half + 2 * (threadIdx.x % 4) + i);
      int dim = dim_of_value_code(c * ValueCodes::STEPS, 0);
      return variant.format_of_values().scale(side, kv_head, dim / V_SCALE_GROUP);
    };
    return pack2<f16>(scale(0), scale(1));
  }

 public:
  explicit ValueCodeProduct(const Variant& variant) : levels_(variant.format_of_values()) {}

  // O^T += V^T P^T. Each group of dims has its own P, to which its scales are applied.
  void multiply(const SwapAbScores& s, const Variant& variant, KvStage stage, int kv_head) {
    constexpr int CHUNKS = V_CODE_BYTES / 16, OF_GROUP = LINEAR_VALUES ? CHUNKS / V_SCALES : 1;
    constexpr int FACTORS = ValueCodes::HAS_ZERO ? 2 : 1;  // the scale, and the zero
#pragma unroll
    for (int m = 0; m < KEY_BLOCKS; ++m) {
      float factors[2][V_SCALES][FACTORS], largest = 0.f;
#pragma unroll
      for (int half = 0; half < 2; ++half) {
        SideOf<V_SIDE_BYTES> side(stage.value_side(key_of_lane(m, half)));
#pragma unroll
        for (int group = 0; group < V_SCALES; ++group) {
          factors[half][group][0] = 1.f;
          if constexpr (!SCALE_VALUE_CODES)
            factors[half][group][0] = variant.format_of_values().scale(side, kv_head, group);
          if constexpr (ValueCodes::HAS_ZERO)
            factors[half][group][1] = variant.format_of_values().zero(side, kv_head, group);
#pragma unroll
          for (int i = 0; i < FACTORS; ++i) largest = fmaxf(largest, fabsf(factors[half][group][i]));
        }
      }
      float inverse = unit_.inverse_for(s[m], largest, [&](float factor) { rescale_all(factor); });
      unsigned words[4], p[ROW_BLOCKS][2];
#pragma unroll
      for (int c = 0; c < CHUNKS; ++c) {
        if (c % 2 == 0) load_codes<true>(words, stage.stored_values(), 16 * m, c / 2);
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
              if constexpr (ValueCodes::SIGNED) summed[half] = p[n][half];
              if constexpr (ValueCodes::HAS_ZERO) summed[half] = times(factors[half][group][FACTORS - 1] * inverse);
            }
            if constexpr (ValueCodes::WHOLE) mma<f16>(offset_[n], row_of_group, summed[0], summed[1]);
          }
        }
        unsigned scales[2] = {};
        if constexpr (SCALE_VALUE_CODES)
#pragma unroll
          for (int half = 0; half < 2; ++half) scales[half] = scales_of_values(variant, stage, kv_head, m, half, c);
        // of the keys 0 to 7, and 8 to 15
        ValueWord low(words[c % 2 * 2], levels_, scales[0]), high(words[c % 2 * 2 + 1], levels_, scales[1]);
#pragma unroll
        for (int u = 0; u < ValueCodes::STEPS; ++u) {
          constexpr int STEPS = ValueCodes::STEPS;
          unsigned a[4] = {low[u], low[u + STEPS], high[u], high[u + STEPS]};
#pragma unroll
          for (int n = 0; n < ROW_BLOCKS; ++n) mma<f16>(o_[n][c * ValueCodes::STEPS + u], a, p[n][0], p[n][1]);
        }
      }
    }
  }

  // Multiplies this lane's r-th row, as its row max grows.
  void rescale(int r, float factor) {
    if constexpr (ValueCodes::WHOLE) offset_[r / 2][r % 2] *= factor;
    scale_output_row(o_, r, factor);
  }

  // The factor of all outputs: none, as `output` has it.
  static float unit() { return 1.f; }
  static int output_dim(int t, int high) { return dim_of_value_code(t, high); }
  // The element of O that a lane's accumulator of codes stands for. A warp-wide call.
  float output(int r, int t, int high) const {
    float sum = o_[r / 2][t][r % 2 + 2 * high] * (ValueCodes::UNIT / ValueCodes::factor(t % ValueCodes::STEPS));
    if constexpr (ValueCodes::WHOLE) {
      int group = ValueCodes::OF_CHUNK * (t / ValueCodes::STEPS) / V_SCALE_GROUP;
      float offset = __shfl_sync(ALL_LANES, offset_[r / 2][r % 2], 4 * group + threadIdx.x % 4);
      sum += ValueCodes::SIGNED ? -ValueCodes::OFFSET * offset : offset;
    }
    return sum * unit_.unit();
  }

 private:
  // Multiplies all sums.
  void rescale_all(float factor) {
    if constexpr (HAS_OFFSET)
#pragma unroll
      for (auto& of_rows : offset_)
#pragma unroll
        for (float& x : of_rows) x *= factor;
    scale_output(o_, factor);
  }
};
