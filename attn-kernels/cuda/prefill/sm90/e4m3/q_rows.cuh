// Rounds rows of Q to e4m3, after the variant's query_transform, each scaled by a power of two.
#pragma once
#include "prefill/q_loader.cuh"
#include "prefill/sm90/e4m3/products.cuh"

// The exponent of the largest power of two that keeps a row's elements within 448, of which `most` is the largest
// magnitude. Far beyond the range of logits it is clamped, so that it and its inverse are normal numbers.
inline int row_exponent(float most) {
  unsigned bits = __float_as_uint(most);
  // 448 is 1.75 * 2^8
  int exponent = 8 - (static_cast<int>(bits >> 23) - 127) - static_cast<int>((bits & 0x7fffff) > 0x600000);
  return min(exponent, 60);
}
inline float power_of_two(int exponent) { return __uint_as_float(static_cast<unsigned>(127 + exponent) << 23); }

// The four dims of half of an operand that this thread has.
inline int operand_dim(int operand, int half) { return 32 * operand + 16 * half + threadIdx.x % 4 * 4; }

// Transforms and rounds this warp's 16 rows in place: a row of 128 bytes takes the place of its first 64 elements.
// `inverse` receives what this thread's two rows of S are multiplied by in turn.
inline void round_transformed(SmemQ smem_q, const KernelParams& p, const Variant& variant, const QTile& q_tile,
                              int warp, float (&inverse)[ROWS_PER_THREAD]) {
  using Row = HookRow<HEAD_DIM_QK>;
  constexpr int LANES = Row::LANES_OF_ROW, ROWS = 32 / LANES;
  static_assert(Row::VALUES_OF_LANE == 8 && ROWS == 2, "half a warp holds a row");
  int lane = threadIdx.x % 32, mine = lane / 4;
#pragma unroll 1
  for (int pass = 0; pass < 16 / ROWS; ++pass) {
    int row = 16 * warp + ROWS * pass + lane / LANES;
    Row q;
    auto shared = [&](int dim) { return smem_q.at(row, dim / 8) + dim % 8 * 2; };
    if constexpr (Row::IN_HALVES) {
      uint2 low = load_shared_8(shared(Row::first())), high = load_shared_8(shared(Row::first() + HEAD_DIM_QK / 2));
      unpack<QoElem>(q, {low.x, low.y, high.x, high.y});
    } else {
      unpack<QoElem>(q, load_shared_16(shared(Row::first())));
    }
    if constexpr (Variant::HAS_QUERY_TRANSFORM) variant.query_transform(q, q_tile.at(p, q_tile.clamp_row(row)));
    int exponent = row_exponent(q.max_abs());
    __syncwarp();  // all lanes have loaded the row that is overwritten
    float scale = power_of_two(exponent);
    unsigned words[2];
#pragma unroll
    for (int i = 0; i < 2; ++i)
      words[i] = pack4_e4m3(q.x[4 * i] * scale, q.x[4 * i + 1] * scale, q.x[4 * i + 2] * scale, q.x[4 * i + 3] * scale);
    auto rounded = [&](int dim) { return smem_q.at(row, dim / 16) + dim % 16; };
    if constexpr (Row::IN_HALVES) {
      store_shared_4(rounded(Row::first()), words[0]);
      store_shared_4(rounded(Row::first() + HEAD_DIM_QK / 2), words[1]);
    } else {
      store_shared_8(rounded(Row::first()), {words[0], words[1]});
    }
#pragma unroll
    for (int r = 0; r < ROWS_PER_THREAD; ++r) {
      int of_row = __shfl_sync(ALL_LANES, exponent, (mine + 8 * r) % ROWS * LANES);
      if ((mine + 8 * r) / ROWS == pass) inverse[r] = power_of_two(-of_row);
    }
  }
  fence_view_async_shared();  // before TMA writes the next Q there
  __syncwarp();
}

// Rounds this warp's 16 rows. `inverse` receives what this thread's two rows of S are multiplied by in turn. The scale
// of a row depends on the row alone. A row lies in four lanes, as operands have it, so that two exchanges find its
// largest element.
inline void round_q(QOperands& q, SmemQ smem_q, const KernelParams& p, const Variant& variant, const QTile& q_tile,
                    int warp, float (&inverse)[ROWS_PER_THREAD]) {
  if constexpr (Variant::HAS_QUERY_TRANSFORM) round_transformed(smem_q, p, variant, q_tile, warp, inverse);
#pragma unroll
  for (int r = 0; r < ROWS_PER_THREAD; ++r) {
    int row = 16 * warp + 8 * r + threadIdx.x % 32 / 4;
    if constexpr (Variant::HAS_QUERY_TRANSFORM) {
#pragma unroll
      for (int i = 0; i < HEAD_DIM_QK / 16; ++i) {
        int dim = operand_dim(i / 2, i % 2);
        q[i / 2][i % 2 * 2 + r] = load_shared_4(smem_q.at(row, dim / 16) + dim % 16);
      }
    } else {
      float x[HEAD_DIM_QK / 16][4], most = 0.f;
#pragma unroll
      for (int i = 0; i < HEAD_DIM_QK / 16; ++i) {
        int dim = operand_dim(i / 2, i % 2);
        uint2 words = load_shared_8(smem_q.at(row, dim / 8) + dim % 8 * 2);
        float2 low = unpack2<QoElem>(words.x), high = unpack2<QoElem>(words.y);
        x[i][0] = low.x, x[i][1] = low.y, x[i][2] = high.x, x[i][3] = high.y;
#pragma unroll
        for (int e = 0; e < 4; ++e) most = fmaxf(most, fabsf(x[i][e]));
      }
      int exponent = row_exponent(quad_max(most));
      float scale = power_of_two(exponent);
      inverse[r] = power_of_two(-exponent);
#pragma unroll
      for (int i = 0; i < HEAD_DIM_QK / 16; ++i)
        q[i / 2][i % 2 * 2 + r] = pack4_e4m3(x[i][0] * scale, x[i][1] * scale, x[i][2] * scale, x[i][3] * scale);
    }
  }
}

// The warpgroup's rows of Q in registers, rounded.
struct WarpgroupQ {
  SmemQ smem;
  int warp;
  QOperands operands;
  float inverse[ROWS_PER_THREAD];  // what this thread's rows of S are multiplied by in turn

  WarpgroupQ(SmemQ smem, int warp, float) : smem(smem), warp(warp) {}

  // Called once Q has arrived.
  void transform(const KernelParams& p, const Variant& variant, const QTile& q_tile) {
    round_q(operands, smem, p, variant, q_tile, warp, inverse);
  }
};
