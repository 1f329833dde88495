// A row of a head in f32, spread over the lanes of a warp: what the row hooks of a variant work on.
// Lane i of LANES neighbouring lanes holds values VEC * i .. VEC * i + VEC; or, as HALVES, half as many there and as many at the
// same place of the row's other half, so that a rotation of whole halves stays within the lane. A warp holds 32 / LANES such rows
// at a time, and all of its lanes must call a combinator together, since values travel by shuffles.
// A row of DIM values leaves lanes over where that is no power of two: they hold zeros, and no hook is asked for them.
#pragma once

#include "arch/element.cuh"

constexpr unsigned ALL_LANES = 0xffffffffu;

// How a row of `dim` values is spread: values of a lane, whole accesses of 16 bytes where they have 16 bits, and lanes.
constexpr int row_values(int dim) { return dim <= 256 ? 8 : dim <= 512 ? 16 : 32; }
constexpr int row_lanes(int dim) {
  int lanes = 1;
  while (lanes * row_values(dim) < dim) lanes *= 2;
  return lanes;
}

template <int LANES, int VEC, bool HALVES = false, int DIM = LANES * VEC> struct LaneRow {
  static_assert(LANES >= 1 && LANES <= 32 && (LANES & (LANES - 1)) == 0, "a row spans a power of two of lanes");
  static_assert((VEC & (VEC - 1)) == 0, "a lane holds a power of two of values");
  static_assert(DIM % VEC == 0 && DIM <= LANES * VEC && (!HALVES || DIM == LANES * VEC), "a lane is full or empty; halves are full");

  template <int, int, bool, int> friend struct LaneRow;

  static constexpr int LANES_OF_ROW = LANES, VALUES_OF_LANE = VEC;
  static constexpr bool IN_HALVES = HALVES;

  float x[VEC];

  static int lane() { return threadIdx.x % LANES; }
  static int first() { return lane() * (HALVES ? VEC / 2 : VEC); }
  // Which value of the row x[i] is.
  static int place(int i) { return first() + (HALVES && i >= VEC / 2 ? (LANES - 1) * (VEC / 2) : 0) + i; }

  // Whether this lane holds values of the row.
  static bool holds() { return DIM == LANES * VEC || first() < DIM; }

  int dim() const { return DIM; }

  template <class F> void map(F f) {
    if (!holds()) return;
#pragma unroll
    for (int i = 0; i < VEC; ++i) x[i] = f(place(i), x[i]);
  }

  // x[d] = f(d, x[d], t(d)).
  template <class T, class F> void zip(T t, F f) {
    if (!holds()) return;
#pragma unroll
    for (int i = 0; i < VEC; ++i) x[i] = f(place(i), x[i], t(place(i)));
  }

  // The sum of x[d] * f(d).
  template <class F> float dot(F f) const {
    float total = 0;
    if (holds()) {
#pragma unroll
      for (int i = 0; i < VEC; ++i) total = fmaf(x[i], f(place(i)), total);
    }
    return sum_over_lanes(total);
  }

  float sum() const {
    float total = 0;
#pragma unroll
    for (int i = 0; i < VEC; ++i) total += x[i];
    return sum_over_lanes(total);
  }

  float sum_sq() const {
    float total = 0;
#pragma unroll
    for (int i = 0; i < VEC; ++i) total = fmaf(x[i], x[i], total);
    return sum_over_lanes(total);
  }

  float max_abs() const {
    float most = 0;
#pragma unroll
    for (int i = 0; i < VEC; ++i) most = fmaxf(most, fabsf(x[i]));
#pragma unroll
    for (int step = LANES / 2; step > 0; step /= 2) most = fmaxf(most, __shfl_xor_sync(ALL_LANES, most, step));
    return most;
  }

  // Pairs (2 i, 2 i + 1) lie in one lane.
  template <class F> void rotate_pairs(int rot, F f) {
    static_assert(VEC % (HALVES ? 4 : 2) == 0, "a pair lies in one lane");
#pragma unroll
    for (int i = 0; i < VEC; i += 2) {
      int d = place(i);
      if (d < rot) {
        auto turn = f(d / 2);
        float a = x[i], b = x[i + 1];
        x[i] = a * turn.x - b * turn.y;
        x[i + 1] = b * turn.x + a * turn.y;
      }
    }
  }

  // Pairs (d, d + rot / 2). When the two halves start on lane boundaries, a lane and its partner hold the same VEC pairs:
  // each asks `f`, which is where the time goes (a sine and a cosine), for one half of them and they swap the answers.
  template <class F> void rotate_half(int rot, F f) {
    int half = rot / 2;
    if constexpr (HALVES) {
      if (rot == dim()) {
        rotate_own(f);
      } else {
        auto neighbours = to_neighbours();
        neighbours.rotate_unaligned(half, f);
        from_neighbours(neighbours);
      }
    } else if (LANES > 1 && half % VEC == 0)
      rotate_aligned(half, f);
    else
      rotate_unaligned(half, f);
  }

 private:
  // A row of HALVES: every pair lies in its lane.
  template <class F> void rotate_own(F f) {
#pragma unroll
    for (int i = 0; i < VEC / 2; ++i) {
      auto turn = f(first() + i);
      float a = x[i], b = x[i + VEC / 2];
      x[i] = fmaf(-b, turn.y, a * turn.x);
      x[i + VEC / 2] = fmaf(a, turn.y, b * turn.x);
    }
  }

  // A row of HALVES as one of neighbours, and back: a lane's values come from two lanes.
  LaneRow<LANES, VEC> to_neighbours() const {
    LaneRow<LANES, VEC> row;
    bool upper = lane() >= LANES / 2;
    int from = 2 * lane() % LANES;
#pragma unroll
    for (int i = 0; i < VEC; ++i) {
      float low = __shfl_sync(ALL_LANES, x[i % (VEC / 2)], from + i / (VEC / 2), LANES);
      float high = __shfl_sync(ALL_LANES, x[i % (VEC / 2) + VEC / 2], from + i / (VEC / 2), LANES);
      row.x[i] = upper ? high : low;
    }
    return row;
  }
  void from_neighbours(const LaneRow<LANES, VEC>& row) {
#pragma unroll
    for (int i = 0; i < VEC; ++i) {
      int from = lane() / 2 + i / (VEC / 2) * (LANES / 2);
      float low = __shfl_sync(ALL_LANES, row.x[i % (VEC / 2)], from, LANES);
      float high = __shfl_sync(ALL_LANES, row.x[i % (VEC / 2) + VEC / 2], from, LANES);
      x[i] = lane() % 2 ? high : low;
    }
  }

  static float sum_over_lanes(float total) {
#pragma unroll
    for (int step = LANES / 2; step > 0; step /= 2) total += __shfl_xor_sync(ALL_LANES, total, step);
    return total;
  }

  template <class F> void rotate_aligned(int half, F f) {
    int lanes = half / VEC;
    bool upper = lane() >= lanes, inside = lane() < 2 * lanes;
    int partner = !inside ? lane() : upper ? lane() - lanes : lane() + lanes;
    int pair = first() - (upper ? half : 0);  // of x[0]
#pragma unroll
    for (int i = 0; i < VEC / 2; ++i) {
      auto mine = f(inside ? pair + i + (upper ? VEC / 2 : 0) : 0);
      float other_cos = __shfl_sync(ALL_LANES, mine.x, partner, LANES);
      float other_sin = __shfl_sync(ALL_LANES, mine.y, partner, LANES);
      // The lower half takes its partner times -sin: selected together with whose answer it is.
      rotate_one(i, partner, inside, upper ? other_cos : mine.x, upper ? other_sin : -mine.y);
      rotate_one(i + VEC / 2, partner, inside, upper ? mine.x : other_cos, upper ? mine.y : -other_sin);
    }
  }

  void rotate_one(int i, int partner, bool inside, float cos, float sin) {
    float other = __shfl_sync(ALL_LANES, x[i], partner, LANES);
    float turned = fmaf(other, sin, x[i] * cos);
    x[i] = inside ? turned : x[i];
  }

  // Any even rot. The partner of slot i sits `half` values away, in slot (i +- half) % VEC of some lane: publish the
  // row turned by that many slots, so that every shuffle reads the slot of its own number. Rare, so small code counts:
  // `f` is expanded once.
  template <class F> void rotate_unaligned(int half, F f) {
    LaneRow above = *this, below = *this;
    above.turn_slots(half % VEC);
    below.turn_slots((VEC - half % VEC) % VEC);
    float other[VEC];
#pragma unroll
    for (int i = 0; i < VEC; ++i) {
      int d = first() + i;
      float from_above = __shfl_sync(ALL_LANES, above.x[i], (d + half) / VEC, LANES);
      float from_below = __shfl_sync(ALL_LANES, below.x[i], (d < half ? 0 : d - half) / VEC, LANES);
      other[i] = d < half ? -from_above : from_below;
    }
#pragma unroll 1
    for (int turned = 0; turned < VEC; ++turned) {
      int d = first() + turned;
      if (d >= 2 * half) break;
      auto turn = f(d < half ? d : d - half);
#pragma unroll
      for (int i = 0; i < VEC; ++i)
        if (i == turned) x[i] = fmaf(other[i], turn.y, x[i] * turn.x);
    }
  }

  // x[i] = x[(i + by) % VEC], by a run-time amount: one conditional turn a bit, since registers have no run-time index.
  void turn_slots(int by) {
#pragma unroll
    for (int bit = 1; bit < VEC; bit *= 2) {
      float old[VEC];
#pragma unroll
      for (int i = 0; i < VEC; ++i) old[i] = x[i];
#pragma unroll
      for (int i = 0; i < VEC; ++i) x[i] = by & bit ? old[(i + bit) % VEC] : old[i];
    }
  }
};

// Eight 16-bit elements and back: a 16-byte access, the `eight`-th of a lane.
template <class E, int LANES, int VEC, bool HALVES, int DIM>
void unpack(LaneRow<LANES, VEC, HALVES, DIM>& row, uint4 words, int eight = 0) {
  unsigned word[4] = {words.x, words.y, words.z, words.w};
#pragma unroll
  for (int i = 0; i < 4; ++i) {
    float2 pair = unpack2<E>(word[i]);
    row.x[8 * eight + 2 * i] = pair.x;
    row.x[8 * eight + 2 * i + 1] = pair.y;
  }
}

template <class E, int LANES, int VEC, bool HALVES, int DIM>
uint4 pack(const LaneRow<LANES, VEC, HALVES, DIM>& row, int eight = 0) {
  const float* x = row.x + 8 * eight;
  return {pack2<E>(x[0], x[1]), pack2<E>(x[2], x[3]), pack2<E>(x[4], x[5]), pack2<E>(x[6], x[7])};
}

// A row of DIM values over as many lanes as it takes, or over LANES of them.
template <int DIM, int LANES = row_lanes(DIM)>
using RowOf = LaneRow<LANES, row_values(DIM), false, DIM>;

// One as hooks rewrite it: where a row fills a power of two of lanes, half of what a lane holds is of each half of the row, so that the common rotation needs no other
// lane.
template <int DIM>
using HookRow = LaneRow<row_lanes(DIM), row_values(DIM), row_values(DIM) == 8 && row_lanes(DIM) * 8 == DIM, DIM>;
