// A partial: (O, row_max, row_sum) of one query row over part of its keys. It is loaded, stored, merged with another
// one, and finalized into an output row. Partials are in natural units, before sink and output transform.
#pragma once

#include "memory/address.cuh"
#include "softmax/finalize.cuh"
#include "memory/row.cuh"

using Values = RowOf<HEAD_DIM_VO>;
constexpr int LANE_VALUES = Values::VALUES_OF_LANE;
constexpr int ROW_LANES = Values::LANES_OF_ROW;

struct PartialRow {
  float row_max = Variant::PLAIN ? 0.f : NEG_INF;  // without keys
  float row_sum = 0.f;
  Values o = {};  // unnormalised: sum of P * V, relative to row_max

  // Merging is not associative in f32, so that the order of calls is part of the result: it is always that of keys.
  void merge(const PartialRow& other) {
    float keep = 1.f, take = 1.f;
    if constexpr (!Variant::PLAIN) {
      float maximum = fmaxf(row_max, other.row_max);
      keep = exp_relative_to(row_max, maximum);
      take = exp_relative_to(other.row_max, maximum);
      row_max = maximum;
    }
    row_sum = row_sum * keep + other.row_sum * take;
#pragma unroll
    for (int i = 0; i < LANE_VALUES; ++i) o.x[i] = o.x[i] * keep + other.o.x[i] * take;
  }
};

// Loads a partial from shared memory. `sums(dim)`: address of eight values of O from a multiple of eight on; `md`:
// (row_max, row_sum).
template <class F>
inline PartialRow load_partial(F sums, const float2* md) {
  PartialRow state;
  state.row_max = md->x;
  state.row_sum = md->y;
  if (!Values::holds()) return state;
#pragma unroll
  for (int i = 0; i < LANE_VALUES; i += 4)
    if (Values::holds(i))
      state.o.set_four(i, reinterpret_cast<const float4*>(sums(Values::first() + i / 8 * 8))[i % 8 / 4]);
  return state;
}

// Loads a partial from L2, which another CTA of this launch or an earlier launch wrote.
inline PartialRow load_partial_l2(const float* sums, const float2* md) {
  PartialRow state;
  float2 both = load_l2_8(md);
  state.row_max = both.x;
  state.row_sum = both.y;
  if (!Values::holds()) return state;
#pragma unroll
  for (int i = 0; i < LANE_VALUES; i += 4)
    if (Values::holds(i)) state.o.set_four(i, load_l2_16(sums + Values::first() + i));
  return state;
}

inline void store_partial(const PartialRow& state, float* sums, float2* md) {
  if (!Values::holds()) return;
  float4* to = reinterpret_cast<float4*>(sums + Values::first());
#pragma unroll
  for (int i = 0; i < LANE_VALUES; i += 4)
    if (Values::holds(i)) to[i / 4] = {state.o.x[i], state.o.x[i + 1], state.o.x[i + 2], state.o.x[i + 3]};
  if (Values::lane() == 0) *md = {state.row_max, state.row_sum};
}

// The index of a partial row in partial_md; times HEAD_DIM_VO in partial_o.
inline long long partial_index(const KernelParams& p, int row, int kv_head) {
  return static_cast<long long>(row) * p.kv_heads + kv_head;
}

inline void store_partial_row(const KernelParams& p, const PartialRow& state, int row, int kv_head) {
  long long index = partial_index(p, row, kv_head);
  store_partial(state, p.partial_o + index * HEAD_DIM_VO, p.partial_md + index);
}

// Finalizes a row and stores it: sink, division by row_sum, output transform, rounding. All lanes of the warp call it;
// `store` says whether the row exists.
inline void write_output(const KernelParams& p, const Variant& variant, PartialRow state, RowIndex at, bool store) {
  FinalizedRow finalized = finalize_row(p, variant, state.row_max, state.row_sum, at);
#pragma unroll
  for (float& x : state.o.x) x *= finalized.scale;
  if constexpr (Variant::HAS_OUTPUT_TRANSFORM)
    if (!p.partial_output) variant.output_transform(state.o, finalized.state, at);
  if (!store || !Values::holds()) return;
  store_output(p, at, state.o);
  if (p.lse && Values::lane() == 0) p.lse[at.qo_token * p.lse_token + at.qo_head * p.lse_head] = finalized.state.lse;
}
