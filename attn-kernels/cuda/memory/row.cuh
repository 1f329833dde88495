// A row of a head in f32, distributed over the lanes of a warp: the type that a variant's row hooks work on.
//
// Lane i of LANES neighbouring lanes holds the values VEC * i .. VEC * i + VEC. With HALVES it holds VEC / 2 of them
// from each half of the row instead, so that a rotation of the two halves (RoPE) stays within the lane. A warp holds 32
// / LANES rows at a time. All of its lanes must call a combinator together, since values are exchanged by shuffles. If
// DIM is not a power of two, the lanes past it hold zeros and hooks are not called for them.
#pragma once

#include "arch/ptx.cuh"
#include "arch/reduce.cuh"

// How a row of `dim` values is distributed: values per lane (16-byte accesses if elements have 16 bits), and lanes.
constexpr int row_values(int dim) { return dim <= 256 ? 8 : dim <= 512 ? 16 : 32; }
constexpr int row_lanes(int dim) {
  int lanes = 1;
  while (lanes * row_values(dim) < dim) lanes *= 2;
  return lanes;
}

inline float4 floats_of(uint4 x) {
  return {__uint_as_float(x.x), __uint_as_float(x.y), __uint_as_float(x.z), __uint_as_float(x.w)};
}

template <int LANES, int VEC, bool HALVES = false, int DIM = LANES * VEC>
struct LaneRow {
  static_assert(LANES >= 1 && LANES <= 32 && (LANES & (LANES - 1)) == 0, "a row spans a power of two of lanes");
  static_assert((VEC & (VEC - 1)) == 0, "a lane holds a power of two of values");
  static_assert(DIM % 8 == 0 && DIM <= LANES * VEC && (!HALVES || DIM == LANES * VEC),
                "rows are whole groups of eight values; halves are full");

  template <int, int, bool, int>
  friend struct LaneRow;

  static constexpr int LANES_OF_ROW = LANES, VALUES_OF_LANE = VEC, DIMS = DIM;
  static constexpr bool IN_HALVES = HALVES;

  float x[VEC];

  static int lane() { return threadIdx.x % LANES; }
  static int first() { return lane() * (HALVES ? VEC / 2 : VEC); }
  // The dim that x[i] is.
  static int dim_of(int i) { return first() + (HALVES && i >= VEC / 2 ? (LANES - 1) * (VEC / 2) : 0) + i; }

  // Whether this lane holds values of the row, and whether its values from i on, eight of them or fewer, are some.
  static bool holds() { return DIM == LANES * VEC || first() < DIM; }
  static bool holds(int i) { return DIM % VEC == 0 ? holds() : first() + i / 8 * 8 < DIM; }

  int dim() const { return DIM; }

  template <class F>
  void map(F f) {
    each([&](int i) { x[i] = f(dim_of(i), x[i]); });
  }

  // x[d] = f(d, x[d], t(d)).
  template <class T, class F>
  void zip(T t, F f) {
    each([&](int i) { x[i] = f(dim_of(i), x[i], t(dim_of(i))); });
  }

  // The sum of x[d] * f(d).
  template <class F>
  float dot(F f) const {
    float total = 0;
    each([&](int i) { total = fmaf(x[i], f(dim_of(i)), total); });
    return sum_of_neighbours<LANES>(total);
  }

  float sum() const {
    return sum_of_neighbours<LANES>(fold([](float total, float y) { return total + y; }));
  }
  float sum_sq() const {
    return sum_of_neighbours<LANES>(fold([](float total, float y) { return fmaf(y, y, total); }));
  }
  float max_abs() const {
    return max_of_neighbours<LANES>(fold([](float most, float y) { return fmaxf(most, fabsf(y)); }));
  }

  // Sets x[i] .. x[i + 3].
  void set_four(int i, float4 four) { x[i] = four.x, x[i + 1] = four.y, x[i + 2] = four.z, x[i + 3] = four.w; }

  // Rotates the pairs (2 i, 2 i + 1). Both values of a pair are in one lane.
  template <class F>
  void rotate_pairs(int rot, F f) {
    static_assert(VEC % (HALVES ? 4 : 2) == 0, "a pair lies in one lane");
#pragma unroll
    for (int i = 0; i < VEC; i += 2) {
      int d = dim_of(i);
      if (d < rot) {
        auto cos_sin = f(d / 2);
        float a = x[i], b = x[i + 1];
        x[i] = a * cos_sin.x - b * cos_sin.y;
        x[i + 1] = b * cos_sin.x + a * cos_sin.y;
      }
    }
  }

  // Rotates the pairs (d, d + rot / 2). If both halves start on lane boundaries, a lane and its partner hold the same
  // VEC pairs: each calls the expensive `f` (a sine and a cosine) for half of them, and they exchange the results.
  template <class F>
  void rotate_half(int rot, F f) {
    int half = rot / 2;
    if constexpr (HALVES) {
      if (rot == dim()) {
        rotate_in_lane(f);
      } else {
        auto contiguous = to_contiguous();
        contiguous.rotate_unaligned(half, f);
        from_contiguous(contiguous);
      }
    } else if (LANES > 1 && half % VEC == 0)
      rotate_aligned(half, f);
    else
      rotate_unaligned(half, f);
  }

 private:
  // Calls `f(i)` for each x[i] that is a value of the row.
  template <class F>
  static void each(F f) {
    if (!holds()) return;
#pragma unroll
    for (int i = 0; i < VEC; ++i)
      if (DIM % VEC == 0 || holds(i)) f(i);
  }
  template <class F>
  float fold(F f) const {
    float result = 0;
#pragma unroll
    for (int i = 0; i < VEC; ++i) result = f(result, x[i]);
    return result;
  }

  // With HALVES both values of a pair are in one lane.
  template <class F>
  void rotate_in_lane(F f) {
#pragma unroll
    for (int i = 0; i < VEC / 2; ++i) {
      auto cos_sin = f(first() + i);
      float a = x[i], b = x[i + VEC / 2];
      x[i] = fmaf(-b, cos_sin.y, a * cos_sin.x);
      x[i + VEC / 2] = fmaf(a, cos_sin.y, b * cos_sin.x);
    }
  }

  // Converts a row with HALVES to the contiguous layout and back. Each lane's values come from two lanes.
  LaneRow<LANES, VEC> to_contiguous() const {
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
  void from_contiguous(const LaneRow<LANES, VEC>& row) {
#pragma unroll
    for (int i = 0; i < VEC; ++i) {
      int from = lane() / 2 + i / (VEC / 2) * (LANES / 2);
      float low = __shfl_sync(ALL_LANES, row.x[i % (VEC / 2)], from, LANES);
      float high = __shfl_sync(ALL_LANES, row.x[i % (VEC / 2) + VEC / 2], from, LANES);
      x[i] = lane() % 2 ? high : low;
    }
  }

  template <class F>
  void rotate_aligned(int half, F f) {
    int lanes = half / VEC;
    bool upper = lane() >= lanes, inside = lane() < 2 * lanes;
    int partner = !inside ? lane() : upper ? lane() - lanes : lane() + lanes;
    int pair = first() - (upper ? half : 0);  // of x[0]
#pragma unroll
    for (int i = 0; i < VEC / 2; ++i) {
      auto cos_sin = f(inside ? pair + i + (upper ? VEC / 2 : 0) : 0);
      float other_cos = __shfl_sync(ALL_LANES, cos_sin.x, partner, LANES);
      float other_sin = __shfl_sync(ALL_LANES, cos_sin.y, partner, LANES);
      // The lower half multiplies its partner by -sin. One select per value chooses the lane's own result or the
      // partner's, and the sign with it.
      rotate_one(i, partner, inside, upper ? other_cos : cos_sin.x, upper ? other_sin : -cos_sin.y);
      rotate_one(i + VEC / 2, partner, inside, upper ? cos_sin.x : other_cos, upper ? cos_sin.y : -other_sin);
    }
  }

  void rotate_one(int i, int partner, bool inside, float cos, float sin) {
    float other = __shfl_sync(ALL_LANES, x[i], partner, LANES);
    float rotated = fmaf(other, sin, x[i] * cos);
    x[i] = inside ? rotated : x[i];
  }

  // Any even `rot`. The partner of x[i] is `half` values away: element (i +- half) % VEC of some lane. Each lane shifts
  // its values cyclically by that amount first, so that every shuffle reads a register with a constant index. This case
  // is rare, so code size matters most: `f` is expanded once.
  template <class F>
  void rotate_unaligned(int half, F f) {
    LaneRow above = *this, below = *this;
    above.shift_cyclic(half % VEC);
    below.shift_cyclic((VEC - half % VEC) % VEC);
    float other[VEC];
#pragma unroll
    for (int i = 0; i < VEC; ++i) {
      int d = first() + i;
      float from_above = __shfl_sync(ALL_LANES, above.x[i], (d + half) / VEC, LANES);
      float from_below = __shfl_sync(ALL_LANES, below.x[i], (d < half ? 0 : d - half) / VEC, LANES);
      other[i] = d < half ? -from_above : from_below;
    }
#pragma unroll 1
    for (int own = 0; own < VEC; ++own) {
      int d = first() + own;
      if (d >= 2 * half) break;
      auto cos_sin = f(d < half ? d : d - half);
#pragma unroll
      for (int i = 0; i < VEC; ++i)
        if (i == own) x[i] = fmaf(other[i], cos_sin.y, x[i] * cos_sin.x);
    }
  }

  // x[i] = x[(i + by) % VEC] for a run-time `by`: one conditional shift per bit, since registers have no run-time
  // index.
  void shift_cyclic(int by) {
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

// Converts eight 16-bit elements to f32 and back: one 16-byte access, the `eight`-th of a lane.
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

// Loads this lane's values of a row of E from global memory; `from` is the address of the first. A lane without values
// loads zeros.
template <class E, class Row>
inline void load_row(Row& row, const E* from) {
  if constexpr (sizeof(E) == 4) {
#pragma unroll
    for (int i = 0; i < Row::VALUES_OF_LANE; i += 4) {
      float4 four = {};
      if (Row::holds(i)) four = *reinterpret_cast<const float4*>(from + Row::dim_of(i) - Row::first());
      row.set_four(i, four);
    }
  } else if constexpr (Row::IN_HALVES) {
    uint2 low = *reinterpret_cast<const uint2*>(from), high = *reinterpret_cast<const uint2*>(from + Row::DIMS / 2);
    unpack<E>(row, {low.x, low.y, high.x, high.y});
  } else {
#pragma unroll
    for (int eight = 0; eight < Row::VALUES_OF_LANE / 8; ++eight) {
      uint4 words = {};
      if (Row::holds(8 * eight)) words = *reinterpret_cast<const uint4*>(from + 8 * eight);
      unpack<E>(row, words, eight);
    }
  }
}
// Stores this lane's values of a row of E, in the contiguous layout, to the row in global memory.
template <class E, class Row>
inline void store_row(E* to, const Row& row) {
  static_assert(!Row::IN_HALVES, "rows are stored in the contiguous layout");
#pragma unroll
  for (int eight = 0; eight < Row::VALUES_OF_LANE / 8; ++eight) {
    if (!Row::holds(8 * eight)) continue;
    E* here = to + Row::first() + 8 * eight;
    if constexpr (sizeof(E) == 4) {
      const float* x = row.x + 8 * eight;
      reinterpret_cast<float4*>(here)[0] = {x[0], x[1], x[2], x[3]};
      reinterpret_cast<float4*>(here)[1] = {x[4], x[5], x[6], x[7]};
    } else {
      store_16(here, pack<E>(row, eight));
    }
  }
}

// A row of DIM values in the contiguous layout.
template <int DIM, int LANES = row_lanes(DIM)>
using RowOf = LaneRow<LANES, row_values(DIM), false, DIM>;

// A row in the layout for hooks: HALVES if it fills a power of two of lanes, so that the common rotation needs no other
// lane.
template <int DIM>
using HookRow = LaneRow<row_lanes(DIM), row_values(DIM), row_values(DIM) == 8 && row_lanes(DIM) * 8 == DIM, DIM>;
