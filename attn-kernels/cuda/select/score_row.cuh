// A row of scores, as radix select reads it: each CTA of a cluster has a slice of it, and each warp a segment.
#pragma once
#include "sampling/select.cuh"
#include "select/params.cuh"

template <int THREADS>
struct ScoreRow {
  const SelectParams& p;
  const float* scores;
  int count;              // scores of the row
  int first, begin, end;  // the slice's first score; the warp's segment of the slice
  int slice;              // scores of the slice
  float greatest = NOT_ALLOWED, to_log2 = 1.f;

  ScoreRow(const SelectParams& params, const float* row, int scores_of_row, int rank)
      : p(params), scores(row), count(scores_of_row) {
    constexpr int WARPS = THREADS / 32;
    int share = ((count + CLUSTER_CTAS - 1) / CLUSTER_CTAS + 127) / 128 * 128;
    first = min(rank * share, count), slice = min(share, count - first);
    int segment = ((slice + WARPS - 1) / WARPS + 127) / 128 * 128;
    begin = min(static_cast<int>(threadIdx.x) / 32 * segment, slice);
    end = min(begin + segment, slice);
  }

  bool always(int i) const { return i < p.first || i + p.last >= count; }

  // The score of a position; -inf: it has none, or is chosen without.
  float value(int i, float x) const {
    if (i >= count || always(i) || !(x > NOT_ALLOWED)) return NOT_ALLOWED;
    return fminf(x, 3.402823466e38f);
  }

  // Calls `f(i, x)` for each four scores of this thread, x from `i` of the slice on. All lanes of a warp call it
  // equally often.
  template <class F>
  void each(const F& f) const {
#pragma unroll 1
    for (int at = begin; at < end; at += 128) {
      int i = at + static_cast<int>(threadIdx.x % 32) * 4, position = first + i;
      auto score = [&](int j) { return position + j < count ? scores[position + j] : NOT_ALLOWED; };
      bool wide = p.wide && position + 4 <= count;
      float4 four =
          wide ? *reinterpret_cast<const float4*>(scores + position) : float4{score(0), score(1), score(2), score(3)};
      float x[4] = {value(position, four.x), value(position + 1, four.y), value(position + 2, four.z),
                    value(position + 3, four.w)};
      f(i, x);
    }
  }

  // Radix select counts.
  u64 mass(float) const { return 1; }

  // Spreads the first histogram over the scores.
  void settle(float most, float least) {
    greatest = most;
    float range = most - least;
    to_log2 = range > 0.f ? (BINS - 2) / BINS_PER_LOG2 / range : 1.f;
  }
};
