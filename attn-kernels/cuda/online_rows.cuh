// The query rows of a decode CTA and their online softmax, as one team of lanes sees it over the keys that it owns.
// Logits of all rows and keys of a step are spread over the team's lanes, each of which works on one row only.
#pragma once

#include "key_ring.cuh"
#include "spread_sum.cuh"

// Without a hook that wants natural units, logits come out of the dot product ready for exp2: the scale is in the query.
constexpr bool QUERY_IN_LOG2 = !Variant::HAS_LOGITS_TRANSFORM && !Variant::PLAIN;

class OnlineRows {
  using Logits = SpreadSum<ROW_LANES, TILE_ROWS * TEAM_KEYS>;
  static constexpr int LANES_PER_ROW = ROW_LANES / TILE_ROWS;
  static_assert(LANES_PER_ROW >= 1, "a lane works on one row");

  const Variant& variant_;
  const Request& request_;
  Values query_[TILE_ROWS];
  Values sum_[TILE_ROWS] = {};
  // Of this lane's row, over the team's keys (the denominator: over this lane's keys).
  LogitIndex at_;
  float row_max_ = Variant::PLAIN ? 0.f : NO_LOGIT;  // in log2 units
  float denominator_ = 0.f;

  static int first_logit() { return Logits::first(Values::lane()); }

 public:
  // `queries`: [TILE_ROWS][HEAD_DIM] in shared memory, transformed and scaled.
  OnlineRows(const Variant& variant, const Request& request, const float* queries, RowIndex row) : variant_(variant), request_(request) {
    static_cast<RowIndex&>(at_) = row;
#pragma unroll
    for (int r = 0; r < TILE_ROWS; ++r)
#pragma unroll
      for (int i = 0; i < LANE_VALUES; ++i) query_[r].x[i] = queries[r * HEAD_DIM + Values::first() + i];
  }

  // The row of the tile whose softmax this lane works on.
  static int lane_row() { return first_logit() / TEAM_KEYS; }

  // Takes in the keys of one step.
  void step(const KeyRing& ring, int stage, KeyStep step, int kv_end) {
    float weights[TILE_ROWS * TEAM_KEYS] = {};
    dot(weights, ring, stage, step);
    Logits::run(weights, Values::lane());
    weigh(weights, ring, step, kv_end);
    accumulate(weights, ring, stage);
  }

  // This team's state of every row to shared memory: row r at sums + r * row_stride, its (maximum, denominator) at md + r * md_stride.
  void store(float* sums, float2* md, int row_stride, int md_stride) {
    float denominator = denominator_;
#pragma unroll
    for (int lanes = LANES_PER_ROW / 2; lanes >= Logits::COPIES; lanes /= 2) denominator += __shfl_xor_sync(ALL_LANES, denominator, lanes);
    float row_max = Variant::PLAIN ? 0.f : row_max_ * LN_2;
#pragma unroll
    for (int r = 0; r < TILE_ROWS; ++r) {
      PartialRow state;
      state.row_max = __shfl_sync(ALL_LANES, row_max, r * LANES_PER_ROW, ROW_LANES);
      state.denominator = __shfl_sync(ALL_LANES, denominator, r * LANES_PER_ROW, ROW_LANES);
      state.sum = sum_[r];
      store_partial(state, sums + r * row_stride, md + r * md_stride);
    }
  }

 private:
  void dot(float (&logits)[TILE_ROWS * TEAM_KEYS], const KeyRing& ring, int stage, KeyStep step) {
    if constexpr (Variant::HAS_KEY_TRANSFORM) {
      // A transform may be long (sines), so it is expanded once, not once a key. Registers have no run-time index: logits
      // move up a place a key, and after the last all are where they belong.
#pragma unroll 1
      for (int i = 0; i < TEAM_KEYS; ++i) {
        Values key = ring.key(stage, i);
        variant_.key_transform(key, kv_index(request_, at_.kv_head, ring.kv_pos(step, i)));
#pragma unroll
        for (int r = 0; r < TILE_ROWS; ++r) {
#pragma unroll
          for (int j = 0; j + 1 < TEAM_KEYS; ++j) logits[r * TEAM_KEYS + j] = logits[r * TEAM_KEYS + j + 1];
          logits[r * TEAM_KEYS + TEAM_KEYS - 1] = lane_dot(query_[r], key);
        }
      }
    } else {
#pragma unroll
      for (int i = 0; i < TEAM_KEYS; ++i) {
        Values key = ring.key(stage, i);
#pragma unroll
        for (int r = 0; r < TILE_ROWS; ++r) logits[r * TEAM_KEYS + i] = lane_dot(query_[r], key);
      }
    }
  }

  static float lane_dot(const Values& a, const Values& b) {
    float part = a.x[0] * b.x[0];
#pragma unroll
    for (int d = 1; d < LANE_VALUES; ++d) part = fmaf(a.x[d], b.x[d], part);
    return part;
  }

  // This lane's logits, logits[0 .. PER_LANE], to weights in place.
  void weigh(float (&logits)[TILE_ROWS * TEAM_KEYS], const KeyRing& ring, KeyStep step, int kv_end) {
    int first_key = first_logit() % TEAM_KEYS;
    bool attended[Logits::PER_LANE];
    float maximum = row_max_;
#pragma unroll
    for (int j = 0; j < Logits::PER_LANE; ++j) {
      at_.kv_pos = ring.kv_pos(step, first_key + j);
      at_.kv_token = request_.kv_begin + at_.kv_pos;
      attended[j] = at_.kv_pos < kv_end;
      if constexpr (Variant::HAS_LOGITS_MASK)
        if (!step.full) attended[j] = attended[j] && variant_.logits_mask(at_);
      if constexpr (Variant::HAS_LOGITS_TRANSFORM) logits[j] = variant_.logits_transform(logits[j], at_);
      if constexpr (Variant::PLAIN) {
        logits[j] = attended[j] ? variant_.weight(logits[j], 0.f, at_) : 0.f;
      } else {
        if constexpr (!QUERY_IN_LOG2) logits[j] *= LOG2_E;
        logits[j] = attended[j] ? logits[j] : NO_LOGIT;
        maximum = fmaxf(maximum, logits[j]);
      }
    }
    if constexpr (!Variant::PLAIN) {
#pragma unroll
      for (int lanes = LANES_PER_ROW / 2; lanes >= Logits::COPIES; lanes /= 2) maximum = fmaxf(maximum, __shfl_xor_sync(ALL_LANES, maximum, lanes));
      // The maximum settles after a few steps; then there is nothing to rescale.
      if (__any_sync(ALL_LANES, maximum > row_max_)) rescale(maximum);
      float base = row_max_ == NO_LOGIT ? 0.f : row_max_;
#pragma unroll
      for (int j = 0; j < Logits::PER_LANE; ++j) logits[j] = exp2_approx(logits[j] - base);
    }
#pragma unroll
    for (int j = 0; j < Logits::PER_LANE; ++j) denominator_ += logits[j];
  }

  void rescale(float maximum) {
    float factor = maximum > row_max_ ? exp2_approx(row_max_ - maximum) : 1.f;
    row_max_ = maximum;
    denominator_ *= factor;
#pragma unroll
    for (int r = 0; r < TILE_ROWS; ++r) {
      float of_row = __shfl_sync(ALL_LANES, factor, r * LANES_PER_ROW, ROW_LANES);
#pragma unroll
      for (float& x : sum_[r].x) x *= of_row;
    }
  }

  void accumulate(const float (&weights)[TILE_ROWS * TEAM_KEYS], const KeyRing& ring, int stage) {
#pragma unroll
    for (int i = 0; i < TEAM_KEYS; ++i) {
      Values value = ring.value(stage, i);
#pragma unroll
      for (int r = 0; r < TILE_ROWS; ++r) {
        int logit = r * TEAM_KEYS + i;
        float weight = __shfl_sync(ALL_LANES, weights[Logits::place_of(logit)], Logits::lane_of(logit), ROW_LANES);
#pragma unroll
        for (int d = 0; d < LANE_VALUES; ++d) sum_[r].x[d] = fmaf(weight, value.x[d], sum_[r].x[d]);
      }
    }
  }
};
