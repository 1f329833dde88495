// The products of decode over linear codes: S^T = K Q^T and O^T = V^T P^T. Scales of groups of dims are applied to sums
// of S, and to P; those of small groups to codes.
#pragma once

#include "softmax/units.cuh"
#include "decode/linear_codes.cuh"
#include "memory/shared_bytes.cuh"

// Whether P may be of any size. The P of a softmax is at most 2^RESCALE_THRESHOLD.
constexpr bool FREE_WEIGHTS = Variant::PLAIN || CUSTOM_WEIGHT;
// Whether P is measured in a ValueUnit.
constexpr bool HAS_VALUE_UNIT = FREE_WEIGHTS || (LINEAR_VALUES && !SCALE_VALUE_CODES);

// The range of P times the scales of V, which is rounded to f16. So it is measured in a unit: a power of two that is
// not below the largest scale that the warp has seen, or the largest product where weights are free.
class ValueUnit {
 public:
  static constexpr float HEADROOM = FREE_WEIGHTS ? 0x1p14f : 0x1p7f;

  float inverse() const { return inverse_; }
  float unit() const { return 1.f / inverse_; }
  bool holds(float largest) const { return !(largest * inverse_ > HEADROOM); }
  // Takes in the largest scale or product of all lanes. Returns the factor of all sums so far.
  float grow(float largest) {
#pragma unroll
    for (int step = 1; step < 32; step *= 2) largest = fmaxf(largest, __shfl_xor_sync(ALL_LANES, largest, step));
    float before = inverse_;
    largest = fminf(fmaxf(largest, 0x1p-100f), 0x1p119f);  // so that the unit can be inverted
    inverse_ = HEADROOM / __uint_as_float((__float_as_uint(largest) & 0x7f800000) + 0x00800000);  // a power of two
    return inverse_ / before;
  }

 private:
  float inverse_ = 0x1p100f;  // of the unit, which leaves HEADROOM above the largest one
};

// What products over codes keep beside the fragments of Q and O. Scores and fragments are in the layout of SwapAbMma.
class CodeProducts {
  static constexpr int ROW_BLOCKS = TILE_ROWS / 8;
  static constexpr int KEY_BLOCKS = WARP_KEYS / 16;

  // Where codes are whole numbers: sums of Q over the dims of each group of K, in the scale of S. For signed codes
  // times their offset: where sums of S begin.
  static constexpr bool SUMS_Q = LINEAR_KEYS && KeyCodes::WHOLE;
  float q_sum_[SUMS_Q ? ROW_BLOCKS : 1][K_SCALES][2];
  // Rows 0 to 7 are sums over groups of V: of P times the scale for signed codes, else of P times the zero.
  static constexpr bool HAS_OFFSET = LINEAR_VALUES && ValueCodes::WHOLE;
  float v_offset_[HAS_OFFSET ? ROW_BLOCKS : 1][4] = {};
  ValueUnit v_unit_;
  KeyCodes::Levels key_levels_;
  ValueCodes::Levels value_levels_;

 public:
  explicit CodeProducts(const Variant& variant)
      : key_levels_(variant.key_format), value_levels_(variant.format_of_values()) {}

  // Loads the fragments of Q in the order of codes, and sums Q over the groups of K where sums are needed.
  template <class QFragments, class SmemQ>
  void load_q(QFragments& q_frag, SmemQ smem_q) {
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
          load_q_fragment(q_frag[n][k], smem_q, 8 * n + threadIdx.x % 32 / 4, k);
          if constexpr (SUMS_Q) mma<f16>(sums, ones, q_frag[n][k][0], q_frag[n][k][1]);
        }
        if constexpr (SUMS_Q)
#pragma unroll
          for (int r = 0; r < 2; ++r)
            q_sum_[n][group][r] = sums[r] * ((KeyCodes::SIGNED ? -KeyCodes::OFFSET : 1.f) / KeyCodes::UNIT);
      }
  }

  // S^T += K Q^T. Each group of dims has its own sums, to which its scale and zero are applied.
  template <class Scores, class QFragments>
  void gemm_qk(Scores& s, const QFragments& q_frag, const Variant& variant, const KvPipeline& pipeline, int stage,
               int kv_head) const {
    constexpr int CHUNKS = K_CODE_BYTES / 16, OF_GROUP = LINEAR_KEYS ? CHUNKS / K_SCALES : 1;
#pragma unroll
    for (int m = 0; m < KEY_BLOCKS; ++m) {
      // scales of lanes that differ are read at offsets that differ, which registers cannot be
      using Side = typename Choose<SCALE_KEY_CODES, SharedSide, SideOf<K_SIDE_BYTES>>::type;
      Side sides[2] = {Side(pipeline.key_side(stage, key_of_lane(m, 0))),
                       Side(pipeline.key_side(stage, key_of_lane(m, 1)))};
      unsigned words[4];
      float part[ROW_BLOCKS][4];
#pragma unroll
      for (int c = 0; c < CHUNKS; ++c) {
        if (c % 2 == 0) load_codes<false>(words, pipeline.stored_keys(stage), 16 * m, c / 2);
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
        KeyWord low(words[c % 2 * 2], key_levels_, scales[0]), high(words[c % 2 * 2 + 1], key_levels_, scales[1]);
#pragma unroll
        for (int u = 0; u < KeyCodes::STEPS; ++u) {
          unsigned a[4] = {low[2 * u], high[2 * u], low[2 * u + 1], high[2 * u + 1]};
#pragma unroll
          for (int n = 0; n < ROW_BLOCKS; ++n) {
            const unsigned(&q)[2] = q_frag[n][c * KeyCodes::STEPS + u];
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

  // O^T += V^T P^T. Each group of dims has its own P, to which its scales are applied.
  template <class Output, class Scores>
  void gemm_pv(Output& o, const Scores& s, const Variant& variant, const KvPipeline& pipeline, int stage,
               int kv_head) {
    constexpr int CHUNKS = V_CODE_BYTES / 16, OF_GROUP = LINEAR_VALUES ? CHUNKS / V_SCALES : 1;
    constexpr int FACTORS = ValueCodes::HAS_ZERO ? 2 : 1;  // the scale, and the zero
#pragma unroll
    for (int m = 0; m < KEY_BLOCKS; ++m) {
      float factors[2][V_SCALES][FACTORS], largest = 0.f;
#pragma unroll
      for (int half = 0; half < 2; ++half) {
        SideOf<V_SIDE_BYTES> side(pipeline.value_side(stage, key_of_lane(m, half)));
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
      float inverse = inverse_unit(o, s[m], largest);
      unsigned words[4], p[ROW_BLOCKS][2];
#pragma unroll
      for (int c = 0; c < CHUNKS; ++c) {
        if (c % 2 == 0) load_codes<true>(words, pipeline.stored_values(stage), 16 * m, c / 2);
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
            if constexpr (ValueCodes::WHOLE) mma<f16>(v_offset_[n], row_of_group, summed[0], summed[1]);
          }
        }
        unsigned scales[2] = {};
        if constexpr (SCALE_VALUE_CODES)
#pragma unroll
          for (int half = 0; half < 2; ++half)
            scales[half] = scales_of_values(variant, pipeline, stage, kv_head, m, half, c);
        // of the keys 0 to 7, and 8 to 15
        ValueWord low(words[c % 2 * 2], value_levels_, scales[0]), high(words[c % 2 * 2 + 1], value_levels_, scales[1]);
#pragma unroll
        for (int u = 0; u < ValueCodes::STEPS; ++u) {
          constexpr int STEPS = ValueCodes::STEPS;
          unsigned a[4] = {low[u], low[u + STEPS], high[u], high[u + STEPS]};
#pragma unroll
          for (int n = 0; n < ROW_BLOCKS; ++n) mma<f16>(o[n][c * ValueCodes::STEPS + u], a, p[n][0], p[n][1]);
        }
      }
    }
  }

  // What P of a block of keys is multiplied by, so that f16 holds it times the scales of V, of which `largest` is this
  // lane's largest. A warp-wide call.
  template <class Output, class Block>
  float inverse_unit(Output& o, const Block& p, float largest) {
    if constexpr (!HAS_VALUE_UNIT) return 1.f;
    if constexpr (FREE_WEIGHTS) largest *= largest_weight(p);
    if (__any_sync(ALL_LANES, !v_unit_.holds(largest))) change_unit(o, v_unit_.grow(largest));
    return v_unit_.inverse();
  }
  // The unit of O.
  float unit() const { return HAS_VALUE_UNIT ? v_unit_.unit() : 1.f; }

  // Multiplies what is kept for this lane's r-th row, as O is when its row max grows.
  void rescale(int r, float factor) {
    if constexpr (ValueCodes::WHOLE) v_offset_[r / 2][r % 2] *= factor;
  }

  // The element of O that a lane's accumulator of codes stands for. A warp-wide call.
  template <class Output>
  float output(const Output& o, int r, int t, int high) const {
    float sum = o[r / 2][t][r % 2 + 2 * high] * (ValueCodes::UNIT / ValueCodes::factor(t % ValueCodes::STEPS));
    if constexpr (ValueCodes::WHOLE) {
      int group = ValueCodes::OF_CHUNK * (t / ValueCodes::STEPS) / V_SCALE_GROUP;
      float offset = __shfl_sync(ALL_LANES, v_offset_[r / 2][r % 2], 4 * group + threadIdx.x % 4);
      sum += ValueCodes::SIGNED ? -ValueCodes::OFFSET * offset : offset;
    }
    return sum * unit();
  }

 private:
  // Index within the warp's step of this lane's key in the lower (`half`: upper) eight of the m-th block.
  static int key_of_lane(int m, int half) { return 16 * m + 8 * half + threadIdx.x % 32 / 4; }

  // The largest |P| that this lane holds of a block of keys; a NaN counts as 0, and reaches the sums anyway.
  template <class Block>
  static float largest_weight(const Block& p) {
    float largest = 0.f;
#pragma unroll
    for (int n = 0; n < ROW_BLOCKS; ++n)
#pragma unroll
      for (int i = 0; i < 4; ++i) largest = fmaxf(largest, fabsf(p[n][i]));
    return largest;
  }

  // The scales of this lane's two keys in a half of the m-th block, of the group of its codes of the c-th chunk.
  static unsigned scales_of_values(const Variant& variant, const KvPipeline& pipeline, int stage, int kv_head, int m,
                                   int half, int c) {
    auto scale = [&](int i) {
      SharedSide side = pipeline.value_side(stage, 16 * m + 8 * half + 2 * (threadIdx.x % 4) + i);
      int dim = dim_of_value_code(c * ValueCodes::STEPS, 0);
      return variant.format_of_values().scale(side, kv_head, dim / V_SCALE_GROUP);
    };
    return pack2<f16>(scale(0), scale(1));
  }

  // The operand B of the k-th 16 dims: of each code the element of Q that it meets.
  template <class SmemQ>
  static void load_q_fragment(unsigned (&q)[2], SmemQ smem_q, int row, int k) {
#pragma unroll
    for (int high = 0; high < 2; ++high) {
      int i = k % KeyCodes::STEPS * 2 + high, chunk = k / KeyCodes::STEPS;
      auto element = [&](int i) {
        return unpack2<f16>(load_shared_2(smem_q.at(row, 2 * dim_of_key_code(chunk, i)))).x / KeyCodes::factor(i);
      };
      q[high] = pack2<f16>(element(i), element(i + KeyCodes::REGISTERS));
    }
  }

  // Multiplies all sums over values.
  template <class Output>
  void change_unit(Output& o, float factor) {
#pragma unroll
    for (int n = 0; n < ROW_BLOCKS; ++n) {
      if constexpr (HAS_OFFSET)
#pragma unroll
        for (float& x : v_offset_[n]) x *= factor;
#pragma unroll
      for (auto& tile : o[n])
#pragma unroll
        for (float& x : tile) x *= factor;
    }
  }
};
