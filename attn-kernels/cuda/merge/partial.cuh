// The state of one query row over some of its keys, how two of them become one, and how a whole one becomes output.
// An unfinished state is what partial slots hold: natural units, no sink, no output transform.
#pragma once

#include "memory/address.cuh"
#include "softmax/finalize.cuh"
#include "memory/row.cuh"

using Values = RowOf<VALUE_DIM>;
constexpr int LANE_VALUES = Values::VALUES_OF_LANE;
constexpr int ROW_LANES = Values::LANES_OF_ROW;

struct PartialRow {
  float row_max = Variant::PLAIN ? 0.f : NO_LOGIT;  // without keys
  float denominator = 0.f;
  Values sum = {};  // of weight * value, weights relative to row_max

  // Merging is not associative in f32, so the order of calls is part of the result: always that of the slots.
  void absorb(const PartialRow& other) {
    float keep = 1.f, take = 1.f;
    if constexpr (!Variant::PLAIN) {
      float maximum = fmaxf(row_max, other.row_max);
      keep = exp_below(row_max, maximum);
      take = exp_below(other.row_max, maximum);
      row_max = maximum;
    }
    denominator = denominator * keep + other.denominator * take;
#pragma unroll
    for (int i = 0; i < LANE_VALUES; ++i) sum.x[i] = sum.x[i] * keep + other.sum.x[i] * take;
  }
};

// A state in shared memory: sums(dim) is where eight of them are, from a multiple of eight on; and the row's (maximum, denominator).
template <class F>
inline PartialRow load_partial(F sums, const float2* md) {
  PartialRow state;
  state.row_max = md->x;
  state.denominator = md->y;
  if (!Values::holds()) return state;
#pragma unroll
  for (int i = 0; i < LANE_VALUES; i += 4) {
    float4 four = reinterpret_cast<const float4*>(sums(Values::first() + i / 8 * 8))[i % 8 / 4];
    state.sum.x[i] = four.x;
    state.sum.x[i + 1] = four.y;
    state.sum.x[i + 2] = four.z;
    state.sum.x[i + 3] = four.w;
  }
  return state;
}

// The same of a state that another CTA of the launch wrote, or a launch before.
inline PartialRow load_arrived(const float* sums, const float2* md) {
  PartialRow state;
  float2 both = load_l2_8(md);
  state.row_max = both.x;
  state.denominator = both.y;
  if (!Values::holds()) return state;
#pragma unroll
  for (int i = 0; i < LANE_VALUES; i += 4) {
    float4 four = load_l2_16(sums + Values::first() + i);
    state.sum.x[i] = four.x;
    state.sum.x[i + 1] = four.y;
    state.sum.x[i + 2] = four.z;
    state.sum.x[i + 3] = four.w;
  }
  return state;
}

inline void store_partial(const PartialRow& state, float* sums, float2* md) {
  if (!Values::holds()) return;
  float4* to = reinterpret_cast<float4*>(sums + Values::first());
#pragma unroll
  for (int i = 0; i < LANE_VALUES; i += 4) to[i / 4] = {state.sum.x[i], state.sum.x[i + 1], state.sum.x[i + 2], state.sum.x[i + 3]};
  if (Values::lane() == 0) *md = {state.row_max, state.denominator};
}

// Where a slot keeps a row, in rows: times VALUE_DIM in partial_o, as it is in partial_md. In a mixed launch a slot is the row of the
// partial states at which a tile's begin.
inline long long partial_index(const KernelParams& p, int slot, int kv_head, int row) {
  if constexpr (MIXED) return static_cast<long long>(slot + row) * p.kv_heads + kv_head;
  return (static_cast<long long>(slot) * p.kv_heads + kv_head) * TILE_ROWS + row;
}

// The end of a row: sink, division, output transform, rounding. All lanes of the warp call it; `store` says whether this
// row exists.
inline void write_output(const KernelParams& p, const Variant& variant, PartialRow state, RowIndex at, bool store) {
  FinishedRow finished = finish_row(p, variant, state.row_max, state.denominator, at);
#pragma unroll
  for (float& x : state.sum.x) x *= finished.scale;
  if constexpr (Variant::HAS_OUTPUT_TRANSFORM)
    if (!p.unfinished) variant.output_transform(state.sum, finished.state, at);
  if (!store || !Values::holds()) return;
  QoElem* row = static_cast<QoElem*>(p.o.data) + row_offset(p.o, at);
#pragma unroll
  for (int eight = 0; eight < LANE_VALUES / 8; ++eight)
    store_16(row + Values::first() + 8 * eight, pack<QoElem>(state.sum, eight));
  if (p.lse && Values::lane() == 0) p.lse[at.qo_token * p.lse_token + at.qo_head * p.lse_head] = finished.state.lse;
}
