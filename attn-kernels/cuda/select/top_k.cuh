// The positions of the largest scores of a row, in rising order; of equal ones the first. Grid (rows * CTAs of a
// cluster).
#pragma once
#include "select/score_row.cuh"

// What of a row is chosen: scores above a value, and the first that equal it.
struct Chosen {
  float above;
  unsigned ties;
};

template <int THREADS>
struct TopK {
  using Row = ScoreRow<THREADS>;
  Team<THREADS> team;
  Row row;

  TopK(const SelectParams& p, SampleShared& s, const float* scores, int count)
      : team(s), row(p, scores, count, team.rank) {}

  // The least score to choose. `wanted`: how many scores, beside what is always chosen.
  Chosen choose(int wanted) {
    if (wanted <= 0) return {lang::F32_INFINITY, 0};
    float most = NOT_ALLOWED, least = lang::F32_INFINITY;
    row.each([&](int, const float(&x)[4]) {
#pragma unroll
      for (int j = 0; j < 4; ++j) {
        if (!(x[j] > NOT_ALLOWED)) continue;
        most = fmaxf(most, x[j]), least = fminf(least, x[j]);
      }
    });
    unsigned high = team.cluster_greatest(team.greatest(key_of(most)));
    unsigned low = ~team.cluster_greatest(team.greatest(~key_of(least)));
    if (high <= key_of(NOT_ALLOWED)) return {NOT_ALLOWED, 0};
    row.settle(value_of(high), value_of(low));
    Selector<THREADS, Row> selector(team, row);
    u64 total;
    Target target{static_cast<u64>(wanted), 0.f};
    Prefix prefix = selector.select({NO_MASS, ALL_IDS}, NO_MASS, true, target, total);
    if (!prefix.found) return {NOT_ALLOWED, 0};
    // all that equal the value: as many as there can be
    return {prefix.value, prefix.ties ? static_cast<unsigned>(prefix.ties) : 0xffffffffu};
  }

  // Writes the list. Returns its length.
  int write(Chosen chosen, int* list, int capacity) {
    auto is_above = [&](int i, float x) {
      return row.always(row.first + i) ? row.first + i < row.count : x > chosen.above;
    };
    auto ties = [&](float x) { return chosen.ties && x == chosen.above; };
    // the warp's numbers, then those of all warps and CTAs before it
    u64 mine[2] = {0, 0};
    row.each([&](int i, const float(&x)[4]) {
#pragma unroll
      for (int j = 0; j < 4; ++j) mine[0] += is_above(i + j, x[j]), mine[1] += ties(x[j]);
    });
    SampleShared& s = team.s;
    mine[0] = team.warp_sum(mine[0]), mine[1] = team.warp_sum(mine[1]);
    __syncthreads();
    if (team.lane == 0) s.segment[team.warp] = mine[0] << 32 | mine[1];
    __syncthreads();
    u64 of_warp = team.lane < team.WARPS ? s.segment[team.lane] : 0;
    u64 through = sum_through(of_warp, team.lane);
    u64 of_cta = __shfl_sync(0xffffffffu, through, 31);
    u64 in_cta = __shfl_sync(0xffffffffu, through - of_warp, team.warp);
    u64 before, total = team.sum_slices(of_cta, before);
    before += in_cta;
    unsigned above_before = static_cast<unsigned>(before >> 32), ties_before = static_cast<unsigned>(before);
    row.each([&](int i, const float(&x)[4]) {
      u64 four = 0;
#pragma unroll
      for (int j = 0; j < 4; ++j) four += static_cast<u64>(is_above(i + j, x[j])) << 32 | static_cast<u64>(ties(x[j]));
      u64 sum = sum_through(four, team.lane);
      u64 here = sum - four;
      unsigned above = above_before + static_cast<unsigned>(here >> 32);
      unsigned equal = ties_before + static_cast<unsigned>(here);
#pragma unroll
      for (int j = 0; j < 4; ++j) {
        bool is = is_above(i + j, x[j]), ties_here = ties(x[j]);
        unsigned at = above + min(equal, chosen.ties);
        if ((is || (ties_here && equal < chosen.ties)) && at < static_cast<unsigned>(capacity))
          list[at] = row.first + i + j;
        above += is, equal += ties_here;
      }
      sum = __shfl_sync(0xffffffffu, sum, 31);
      above_before += static_cast<unsigned>(sum >> 32), ties_before += static_cast<unsigned>(sum);
    });
    unsigned count = static_cast<unsigned>(total >> 32) + min(static_cast<unsigned>(total), chosen.ties);
    return static_cast<int>(min(count, static_cast<unsigned>(capacity)));
  }
};

extern "C" __global__ void IN_CLUSTERS __launch_bounds__(SELECT_THREADS, 1)
    attn_select(const __grid_constant__ SelectParams p) {
  __shared__ SampleShared s;
  if constexpr (CLUSTER_CTAS > 1) cluster_sync();  // all CTAs run before one writes to the memory of another
  int number = blockIdx.x / CLUSTER_CTAS, token = number / p.heads, head = number % p.heads;
  int count = max(min(p.counts[token], p.columns), 0);
  const float* scores = p.scores + token * p.scores_token + head * p.scores_head;
  TopK<SELECT_THREADS> top(p, s, scores, count);
  int always = min(p.first + p.last, count);
  int* list = p.lists + static_cast<long long>(number) * p.capacity;
  // a list that holds the row takes all that have a score
  Chosen chosen = {NOT_ALLOWED, 0};
  if (count > p.capacity) chosen = top.choose(p.capacity - always);
  int length = top.write(chosen, list, p.capacity);
  if (top.team.rank == 0) {
    if (threadIdx.x == 0) p.lens[number] = length;
    for (int i = length + threadIdx.x; i < p.capacity; i += SELECT_THREADS) list[i] = 0;
  }
  if constexpr (CLUSTER_CTAS > 1) cluster_sync();  // no CTA ends before the others have read its memory
}
