// Shared memory of a CTA that samples, and what threads of a CTA exchange through it.
#pragma once
#include "arch/cluster.cuh"
#include "arch/element.cuh"
#include "lang/random.cuh"
#include "ops/index.cuh"
#include "sampling/fixed_point.cuh"
#include "sampling/params.cuh"

constexpr int BINS = 1024;
constexpr int MAX_WARPS = 32;
constexpr int MAX_TOP = 64;
// Groups of blocks, whose maxima bound the k-th value of a row.
constexpr int GROUPS = 256;
constexpr unsigned FULL_WARP = 0xffffffffu;

// The first tokens in the order of falling values and rising ids.
struct Cut {
  float value;
  int id;
  bool has(float x, int token) const { return x > value || (x == value && token <= id); }
};
constexpr int ALL_IDS = 0x7fffffff;
inline Cut shorter(Cut a, Cut b) {
  if (a.value == b.value) return a.id < b.id ? a : b;
  return a.value > b.value ? a : b;
}

// A pass over the row by all CTAs of the cluster, which the leader asks for.
enum PassKind { HISTOGRAM, COLLECT, WRITE, DONE };
struct Pass {
  PassKind kind;
  // HISTOGRAM: bins are of masses, or of powers of two of keys from `high_key` down to `low_key`.
  bool coarse, sampled;
  unsigned low_key, high_key;
  int shift;
  // Of HISTOGRAM and COLLECT: weights are 1, or masses.
  bool counts;
  // COLLECT: whether blocks get their sums, of what `above` has, or of its last value alone.
  bool sums, ties;
  Cut above, within;
  // COLLECT: candidates are tokens from here up to `above`.
  float low;
  // WRITE: the sum of what `within` has.
  u64 sum;
};

struct __align__(16) SampleShared {
  // Weights in two words, since shared memory adds 32 bits at a time; and numbers of tokens.
  unsigned low[BINS], high[BINS], tokens[BINS];
  u64 of_warp[2][MAX_WARPS];
  unsigned maxima[GROUPS];
  Pass pass;
  // Of the row.
  float greatest, to_log2;
  bool settled;
  unsigned bound, candidates;
  u64 crossing[3];
  float top_values[MAX_TOP];
  int top_ids[MAX_TOP];
};

static_assert(sizeof(SampleShared) == SAMPLE_SHARED_BYTES, "sampling_abi.rs and the template agree");

// What follows in shared memory: of each block of the row its sum and its greatest value; candidates.
struct Arrays {
  int blocks;
  u64* sums;
  float* maxima;
  float* values;
  int* ids;
  Arrays(SampleShared& s, const SampleParams& p)
      : blocks((p.vocab + BLOCK_TOKENS - 1) / BLOCK_TOKENS),
        sums(reinterpret_cast<u64*>(&s + 1)),
        maxima(reinterpret_cast<float*>(sums + blocks)),
        values(maxima + blocks),
        ids(reinterpret_cast<int*>(values + p.capacity)) {}
};

inline u64 warp_sum(u64 x) {
#pragma unroll
  for (int step = 16; step > 0; step /= 2) x += __shfl_xor_sync(FULL_WARP, x, step);
  return x;
}
inline float warp_greatest(float x) {
#pragma unroll
  for (int step = 16; step > 0; step /= 2) x = fmaxf(x, __shfl_xor_sync(FULL_WARP, x, step));
  return x;
}
// The sum of this lane and those before it.
inline u64 warp_through(u64 x) {
#pragma unroll
  for (int step = 1; step < 32; step *= 2) {
    u64 other = __shfl_up_sync(FULL_WARP, x, step);
    if (static_cast<int>(threadIdx.x) % 32 >= step) x += other;
  }
  return x;
}

// Threads of a CTA that exchange values. All of them call each function. Functions are calls: what runs once a row is read
// from memory as code, and the less of that the better.
template <int THREADS>
struct Team {
  static constexpr int WARPS = THREADS / 32;
  SampleShared& s;
  int warp, lane, buffer = 0;

  explicit Team(SampleShared& shared) : s(shared), warp(threadIdx.x / 32), lane(threadIdx.x % 32) {}

  // The sum over the CTA; in every thread.
  u64 sum(u64 mine) {
    u64* all = s.of_warp[buffer ^= 1];
    mine = warp_sum(mine);
    if (lane == 0) all[warp] = mine;
    __syncthreads();
    return warp_sum(lane < WARPS ? all[lane] : 0);
  }

  // The sum over the threads before this one, and over all.
  u64 before(u64 mine, u64& total) {
    u64* all = s.of_warp[buffer ^= 1];
    u64 through = warp_through(mine);
    if (lane == 31) all[warp] = through;
    __syncthreads();
    u64 of_lane = lane < WARPS ? all[lane] : 0, warps = warp_through(of_lane);
    total = __shfl_sync(FULL_WARP, warps, 31);
    return __shfl_sync(FULL_WARP, warps - of_lane, warp) + through - mine;
  }

  // The greatest over the CTA; in every thread.
  float greatest(float mine) {
    u64* all = s.of_warp[buffer ^= 1];
    mine = warp_greatest(mine);
    if (lane == 0) all[warp] = __float_as_uint(mine);
    __syncthreads();
    return warp_greatest(lane < WARPS ? __uint_as_float(static_cast<unsigned>(all[lane])) : -lang::F32_INFINITY);
  }
};
