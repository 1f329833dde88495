// The query rows of a decode CTA and their online softmax, as one team of lanes sees it over the keys that it owns.
// Logits of all rows and keys of a step are spread over the team's lanes, each of which works on one row only.
#pragma once

#include "key_ring.cuh"
#include "spread_sum.cuh"

// Without a hook that wants natural units, logits come out of the dot product ready for exp2: the scale is in the query.
constexpr bool QUERY_IN_LOG2 = !Variant::HAS_LOGITS_TRANSFORM && !Variant::HAS_WEIGHT;
// What a natural unit is in those of logits once they are transformed.
constexpr float LOGIT_UNIT = MAX_SCALED ? 1.f : LOG2_E;

class OnlineRows {
  using Logits = SpreadSum<ROW_LANES, TILE_ROWS * TEAM_KEYS>;
  static constexpr int LANES_PER_ROW = ROW_LANES / TILE_ROWS;
  static_assert(LANES_PER_ROW >= 1, "a lane works on one row");

  const Variant& variant_;
  const QueryBlock& block_;
  Values query_[TILE_ROWS];
  Values sum_[TILE_ROWS] = {};
  // Of this lane's row, over the team's keys (the denominator: over this lane's keys).
  LogitIndex at_;
  Bounds bounds_;  // of the row's keys, where they are an interval
  float row_max_ = FIRST_MAX * LOGIT_UNIT;
  float denominator_ = 0.f;

  static int first_logit() { return Logits::first(Values::lane()); }

 public:
  // `queries`: [TILE_ROWS][HEAD_DIM] in shared memory, transformed and scaled.
  OnlineRows(const Variant& variant, const QueryBlock& block, const float* queries, RowIndex row)
      : variant_(variant), block_(block) {
    static_cast<RowIndex&>(at_) = row;
    if constexpr (Variant::HAS_BOUNDS) bounds_ = variant.kv_bounds(row);
#pragma unroll
    for (int r = 0; r < TILE_ROWS; ++r)
#pragma unroll
      for (int i = 0; i < LANE_VALUES; ++i) query_[r].x[i] = queries[r * HEAD_DIM + Values::first() + i];
  }

  // The row of the tile whose softmax this lane works on.
  static int lane_row() { return first_logit() / TEAM_KEYS; }

  // Takes in the keys of one step.
  void step(const KeyRing& ring, int stage, KeyStep step) {
    float weights[TILE_ROWS * TEAM_KEYS] = {};
    dot(weights, ring, stage, step);
    Logits::run(weights, Values::lane());
    weigh(weights, ring, step);
    accumulate(weights, ring, stage, step);
  }

  // This team's state of every row to shared memory: row r at sums + r * row_stride, its (maximum, denominator) at md + r * md_stride.
  void store(float* sums, float2* md, int row_stride, int md_stride) {
    float denominator = denominator_;
#pragma unroll
    for (int lanes = LANES_PER_ROW / 2; lanes >= Logits::COPIES; lanes /= 2) denominator += __shfl_xor_sync(ALL_LANES, denominator, lanes);
    float row_max = Variant::PLAIN ? 0.f : MAX_SCALED ? row_max_ : row_max_ * LN_2;
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
        variant_.key_transform(key, ring.index(step, i, at_.kv_head));
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
  void weigh(float (&logits)[TILE_ROWS * TEAM_KEYS], const KeyRing& ring, KeyStep step) {
    bool attended[Logits::PER_LANE];
    float maximum = row_max_;
#pragma unroll
    for (int j = 0; j < Logits::PER_LANE; ++j) {
      stand_at(ring, step, j);
      bool exists = ring.exists(at_.kv_pos);
      attended[j] = exists;
      if constexpr (Variant::HAS_BOUNDS)
        attended[j] = attended[j] && in_bounds(bounds_, at_.kv_pos);
      else if constexpr (Variant::HAS_LOGITS_MASK)
        if (!step.full) attended[j] = attended[j] && variant_.logits_mask(at_);
      if (!Variant::STORES || exists) {
        if constexpr (Variant::HAS_LOGITS_TRANSFORM) logits[j] = variant_.logits_transform(logits[j], at_);
        if constexpr (Variant::PLAIN) logits[j] = variant_.weight(logits[j], 0.f, at_);
      }
      if constexpr (Variant::PLAIN) {
        logits[j] = attended[j] ? logits[j] : 0.f;
      } else {
        if constexpr (!QUERY_IN_LOG2) logits[j] *= LOGIT_UNIT;
        logits[j] = attended[j] ? logits[j] : NO_LOGIT;
        maximum = fmaxf(maximum, logits[j]);
      }
    }
    if constexpr (!Variant::PLAIN) {
#pragma unroll
      for (int lanes = LANES_PER_ROW / 2; lanes >= Logits::COPIES; lanes /= 2) maximum = fmaxf(maximum, __shfl_xor_sync(ALL_LANES, maximum, lanes));
      // The maximum settles after a few steps; then there is nothing to rescale.
      if (__any_sync(ALL_LANES, maximum > row_max_)) rescale(maximum);
    }
    float base = row_max_ == NO_LOGIT ? 0.f : row_max_;
#pragma unroll
    for (int j = 0; j < Logits::PER_LANE; ++j) {
      if constexpr (MAX_SCALED) {
        stand_at(ring, step, j);
        logits[j] = take_weight(variant_, logits[j], base, at_, attended[j], denominator_);
      } else {
        if constexpr (!Variant::PLAIN) logits[j] = exp2_approx(logits[j] - base);
        denominator_ += logits[j];
      }
    }
  }

  // Turns the index word to this lane's j-th logit.
  void stand_at(const KeyRing& ring, KeyStep step, int j) {
    at_.kv_pos = ring.position(step, first_logit() % TEAM_KEYS + j);
    at_.kv_token = block_.request.kv_begin + at_.kv_pos;
  }

  void rescale(float maximum) {
    float factor = maximum > row_max_ ? exp2_approx((row_max_ - maximum) * (LOG2_E / LOGIT_UNIT)) : 1.f;
    row_max_ = maximum;
    denominator_ *= factor;
#pragma unroll
    for (int r = 0; r < TILE_ROWS; ++r) {
      float of_row = __shfl_sync(ALL_LANES, factor, r * LANES_PER_ROW, ROW_LANES);
#pragma unroll
      for (float& x : sum_[r].x) x *= of_row;
    }
  }

  static float of_logit(const float (&weights)[TILE_ROWS * TEAM_KEYS], int logit) {
    return __shfl_sync(ALL_LANES, weights[Logits::place_of(logit)], Logits::lane_of(logit), ROW_LANES);
  }

  void add(int r, float weight, const Values& value) {
#pragma unroll
    for (int d = 0; d < LANE_VALUES; ++d) sum_[r].x[d] = fmaf(weight, value.x[d], sum_[r].x[d]);
  }

  void accumulate(const float (&weights)[TILE_ROWS * TEAM_KEYS], const KeyRing& ring, int stage, KeyStep step) {
    if constexpr (Variant::HAS_VALUE_TRANSFORM) {
      // Expanded once, as the transform of keys: weights move down a place a key.
      float spread[TILE_ROWS * TEAM_KEYS];
#pragma unroll
      for (int logit = 0; logit < TILE_ROWS * TEAM_KEYS; ++logit) spread[logit] = of_logit(weights, logit);
#pragma unroll 1
      for (int i = 0; i < TEAM_KEYS; ++i) {
        Values value = ring.value(stage, i);
        variant_.value_transform(value, ring.index(step, i, at_.kv_head));
#pragma unroll
        for (int r = 0; r < TILE_ROWS; ++r) {
          add(r, spread[r * TEAM_KEYS], value);
#pragma unroll
          for (int j = 0; j + 1 < TEAM_KEYS; ++j) spread[r * TEAM_KEYS + j] = spread[r * TEAM_KEYS + j + 1];
        }
      }
    } else {
#pragma unroll
      for (int i = 0; i < TEAM_KEYS; ++i) {
        Values value = ring.value(stage, i);
#pragma unroll
        for (int r = 0; r < TILE_ROWS; ++r) add(r, of_logit(weights, r * TEAM_KEYS + i), value);
      }
    }
  }
};
