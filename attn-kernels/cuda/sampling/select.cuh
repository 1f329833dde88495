// Finds the shortest prefix of a row, in the order of falling values and rising ids, whose tokens or masses add up to a
// target: radix select with histograms in shared memory, merged over the cluster. Exact, and the same for every layout
// of threads, since sums are of integers.
#pragma once
#include "sampling/row.cuh"

// Where sums over falling bins reach a target.
struct Crossing {
  bool found;
  unsigned bin;
  u64 before, within;
};

// What weights are to add up to: a number, or a share of the sum of all.
struct Target {
  u64 number;
  float share;
  u64 of(u64 sum) const { return number ? number : lang::sampling::share_target(sum, share); }
};

// A prefix that ends with a number of tokens of its last value; 0: with all of them.
struct Prefix {
  float value;
  u64 ties;
  bool found;
};

// Bins per factor of 2 of the probability, so that no token with mass is in the last.
constexpr float BINS_PER_LOG2 = 28.f;

template <int THREADS, class Row>
struct Selector {
  Team<THREADS>& team;
  const Row& row;
  SampleShared& s;

  Selector(Team<THREADS>& t, const Row& of) : team(t), row(of), s(t.s) {}

  // The bin of a value in the first histogram: it does not fall where the value rises.
  unsigned coarse_bin(float x) const {
    unsigned bin;
    if constexpr (FROM_PROBS) {
      bin = x > 0.f ? (__float_as_uint(row.greatest) - __float_as_uint(x)) >> 19 : BINS;
    } else {
      float shifted = fmaf(x - row.greatest, -BINS_PER_LOG2 * row.to_log2, 12582912.f);
      bin = __float_as_uint(shifted) - 0x4b400000u;
    }
    return min(bin, static_cast<unsigned>(BINS - 1));
  }

  void clear() {
    for (int i = threadIdx.x; i < BINS; i += THREADS) s.low[i] = s.high[i] = 0;
    __syncthreads();
  }
  void add(unsigned bin, u64 weight) {
    unsigned low = static_cast<unsigned>(weight), high = static_cast<unsigned>(weight >> 32);
    unsigned before = atomicAdd(&s.low[bin], low);
    high += before + low < before;
    if (high) atomicAdd(&s.high[bin], high);
  }

  // Merges the histograms, of weights after `before`.
  Crossing cross(u64 before, Target target, u64& total) {
    cluster_sync();
    for (int i = threadIdx.x; i < BIN_SHARE; i += THREADS) {
      u64 sum = 0;
#pragma unroll
      for (int cta = 0; cta < CLUSTER_CTAS; ++cta) {
        int bin = team.rank * BIN_SHARE + i;
        sum += static_cast<u64>(*of_cta(&s.high[bin], cta)) << 32;
        sum += *of_cta(&s.low[bin], cta);
      }
      s.merged[i] = sum;
    }
    __syncthreads();
    // each lane has neighbouring bins
    constexpr int OF_LANE = BIN_SHARE / 32;
    u64 mine = 0;
#pragma unroll 4
    for (int i = 0; i < OF_LANE; ++i) mine += s.merged[team.lane * OF_LANE + i];
    u64 through = sum_through(mine, team.lane);
    u64 share = __shfl_sync(0xffffffffu, through, 31);
    u64 here;
    total = team.sum_slices(share, here);
    u64 goal = target.of(total);
    u64 first = before + here + through - mine;
    if (team.warp == 0) {
      if (team.lane == 0) s.crossing[0] = 0;
      __syncwarp();
      if (first < goal && goal <= first + mine) {
#pragma unroll 1
        for (int i = 0; i < OF_LANE; ++i) {
          u64 weight = s.merged[team.lane * OF_LANE + i];
          if (goal <= first + weight) {
            s.crossing[0] = (static_cast<u64>(team.rank * BIN_SHARE + team.lane * OF_LANE + i) << 1 | 1);
            s.crossing[1] = first;
            s.crossing[2] = weight;
            break;
          }
          first += weight;
        }
      }
    }
    __syncthreads();
    const u64* marks = team.tell(s.crossing[0]);
    int owner = 0;
#pragma unroll
    for (int cta = 0; cta < CLUSTER_CTAS; ++cta)
      if (marks[cta]) owner = cta;
    u64 mark = marks[owner];
    Crossing at{mark != 0, static_cast<unsigned>(mark >> 1), 0, 0};
    if (at.found) at.before = *of_cta(&s.crossing[1], owner), at.within = *of_cta(&s.crossing[2], owner);
    cluster_sync();  // before the owner's next crossing
    return at;
  }

  // A bound that at least `k` values reach: the k-th of the maxima of groups of threads in the best CTA, or what every
  // CTA has its share of. `most`: the greatest value of this thread.
  float bound(float most, int k) {
    constexpr int GROUPS = THREADS < 256 ? THREADS : 256, LANES = THREADS / GROUPS;
    int share = (k + CLUSTER_CTAS - 1) / CLUSTER_CTAS;
    if (share > GROUPS) return NO_MASS;
    unsigned key = key_of(most);
#pragma unroll
    for (int step = 1; step < LANES; step *= 2) key = max(key, __shfl_xor_sync(0xffffffffu, key, step));
    if (threadIdx.x % LANES == 0) s.maxima[threadIdx.x / LANES] = key;
    if (threadIdx.x == 0) s.bound[0] = s.bound[1] = 0xffffffffu;
    __syncthreads();
    if (threadIdx.x < GROUPS) {
      key = s.maxima[threadIdx.x];
      int greater = 0;
#pragma unroll 4
      for (int i = 0; i < GROUPS; i += 4) {
        uint4 four = *reinterpret_cast<const uint4*>(s.maxima + i);
        greater += (four.x > key) + (four.y > key) + (four.z > key) + (four.w > key);
      }
      if (greater < k) atomicMin(&s.bound[0], key);
      if (greater < share) atomicMin(&s.bound[1], key);
    }
    __syncthreads();
    u64 bounds[2] = {k > GROUPS ? 0 : s.bound[0], s.bound[1]};
    const u64* all = team.tell(bounds);
    unsigned best = 0, of_all = 0xffffffffu;
#pragma unroll
    for (int cta = 0; cta < CLUSTER_CTAS; ++cta) {
      best = max(best, static_cast<unsigned>(all[cta]));
      of_all = min(of_all, static_cast<unsigned>(all[CLUSTER_CTAS + cta]));
    }
    return fmaxf(value_of(max(best, of_all)), NO_MASS);
  }

  // The least or the greatest key of a coarse bin.
  unsigned end_of_bin(unsigned bin, bool greatest) const {
    // neither NaN nor an infinity
    unsigned low = FROM_PROBS ? 0x80800000u : 0x00800000u, high = key_of(row.greatest);
#pragma unroll 1
    while (low < high) {
      unsigned middle = low + (high - low) / 2 + greatest;
      unsigned at = coarse_bin(value_of(middle));
      if (greatest ? at >= bin : at > bin)
        low = middle + !greatest;
      else
        high = middle - greatest;
    }
    return low;
  }

  // The prefix whose weights reach `target` of the sum of all weights that `within` has. Weights are 1 for `counts`, or
  // masses. `floor`: no value below it is in the prefix, nor counts.
  Prefix select(Cut within, float floor, bool counts, Target target, u64& total) {
    float least = floor, most = lang::F32_INFINITY;
    unsigned high = 0xffffffffu, low = 0;
    int shift = 0;
    bool first = true;
    Crossing at{false, 0, 0, 0};
#pragma unroll 1
    do {
      clear();
      row.each([&](int i, const float(&x)[4]) {
        if (!(fmaxf(fmaxf(x[0], x[1]), fmaxf(x[2], x[3])) >= least)) return;
#pragma unroll
        for (int j = 0; j < 4; ++j) {
          if (!(x[j] >= least && x[j] <= most && within.has(x[j], row.first + i + j))) continue;
          u64 weight = counts ? x[j] > NO_MASS : row.mass(x[j]);
          if (!weight) continue;
          unsigned bin = coarse_bin(x[j]);
          if (!first) {
            // zero has two patterns of bits, and its key may be beyond the end that compares as equal
            unsigned key = key_of(x[j]);
            if (key < low || key > high) continue;
            bin = (high - key) >> shift;
          }
          add(bin, weight);
        }
      });
      u64 sum;
      at = cross(at.before, target, sum);
      if (first) {
        total = sum;
        if (!at.found) return {0.f, 0, false};
        target.number = target.of(sum);
        if (threadIdx.x == 0 || threadIdx.x == 32) s.maxima[threadIdx.x / 32] = end_of_bin(at.bin, threadIdx.x == 0);
        __syncthreads();
        high = s.maxima[0], low = s.maxima[1];
        __syncthreads();
        first = false;
      } else {
        high -= at.bin << shift;
        low = max(low, high - min(high, (1u << shift) - 1));
      }
      shift = high > low ? max(32 - __clz(high - low) - 10, 0) : 0;
      least = fmaxf(value_of(low), floor), most = value_of(high);
    } while (low < high);
    float value = value_of(high);
    u64 each = counts ? 1 : row.mass(value);
    u64 ties = (target.number - at.before + each - 1) / each;
    return {value, ties * each >= at.within ? 0 : ties, true};
  }
};
