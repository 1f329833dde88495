// Shared memory of a CTA that samples, and what the CTAs of a cluster tell each other through it.
#pragma once
#include "arch/cluster.cuh"
#include "arch/element.cuh"
#include "arch/reduce.cuh"
#include "ops/index.cuh"
#include "sampling/params.cuh"
#include "lang/random.cuh"
#include "sampling/fixed_point.cuh"

constexpr int BINS = 1024;
// Bins that a CTA merges, of those of its cluster.
constexpr int BIN_SHARE = BINS / CLUSTER_CTAS;
constexpr int MAX_WARPS = 32;
// Candidates for which a pass over the row finds the masses before them.
constexpr int CHECKED = 4;
// Tokens that a list takes.
constexpr int LIST = BINS;

struct __align__(16) SampleShared {
  // Sums of 64 bits in two words: shared memory adds 32 bits at a time. Else, in the first CTA, a list of likely
  // tokens: their values, and their ids.
  unsigned low[BINS], high[BINS];
  u64 merged[BIN_SHARE];
  unsigned maxima[256];
  // What each CTA tells all others; two, so that the next is written while this one is read.
  u64 told[2][CHECKED][CLUSTER_CTAS];
  u64 of_warp[2][CHECKED][MAX_WARPS];
  // Masses of the warps' segments of tokens.
  u64 segment[MAX_WARPS];
  u64 crossing[3];
  // Drawn tokens and their values, and the masses of their blocks' tokens that are before them in the order of the row.
  u64 candidates[CANDIDATES], before[CANDIDATES];
  unsigned bound[2], list_count, pad;
  u64 found;
};

static_assert(sizeof(SampleShared) == SAMPLE_SHARED_BYTES, "sampling_abi.rs and the template agree");

// Threads of a CTA that exchange values. All of them call each function.
template <int THREADS>
struct Team {
  static constexpr int WARPS = THREADS / 32;
  SampleShared& s;
  unsigned rank;
  int warp, lane;
  int round = 0, buffer = 0;

  explicit Team(SampleShared& shared)
      : s(shared), rank(cluster_rank()), warp(threadIdx.x / 32), lane(threadIdx.x % 32) {}

  static u64 warp_sum(u64 x) { return sum_of_neighbours<32>(x); }

  // The sums over the CTA, in place; in every thread.
  template <int COUNT>
  void sums(u64 (&mine)[COUNT]) {
    buffer ^= 1;
#pragma unroll
    for (int i = 0; i < COUNT; ++i) {
      mine[i] = warp_sum(mine[i]);
      if (lane == 0) s.of_warp[buffer][i][warp] = mine[i];
    }
    __syncthreads();
#pragma unroll
    for (int i = 0; i < COUNT; ++i) mine[i] = warp_sum(lane < WARPS ? s.of_warp[buffer][i][lane] : 0);
  }

  // The greatest over the CTA; in every thread.
  unsigned greatest(unsigned mine) {
    u64* all = s.of_warp[buffer ^= 1][0];
    mine = warp_greatest(mine);
    if (lane == 0) all[warp] = mine;
    __syncthreads();
    return warp_greatest(lane < WARPS ? static_cast<unsigned>(all[lane]) : 0);
  }
  static unsigned warp_greatest(unsigned x) {
    return reduce_neighbours<32>(x, [](unsigned a, unsigned b) { return max(a, b); });
  }

  // Tells all CTAs of the cluster numbers, which every thread has. Returns those of all CTAs: all first numbers, by
  // ranks, then all second ones. They stay until the next but one call.
  template <int COUNT>
  const u64* tell(const u64 (&numbers)[COUNT]) {
    round ^= 1;
    if (threadIdx.x < CLUSTER_CTAS) {
      u64* to = of_cta(&s.told[round][0][rank], threadIdx.x);
#pragma unroll
      for (int i = 0; i < COUNT; ++i) to[i * CLUSTER_CTAS] = numbers[i];
    }
    cluster_sync();
    return s.told[round][0];
  }
  const u64* tell(u64 number) {
    u64 numbers[1] = {number};
    return tell(numbers);
  }

  // Tells the sum of the CTA's slice. Returns that of all slices, and in `before` that of those before its own.
  u64 sum_slices(u64 slice, u64& before) {
    const u64* slices = tell(slice);
    u64 total = 0;
    before = 0;
#pragma unroll
    for (int cta = 0; cta < CLUSTER_CTAS; ++cta) {
      if (cta < static_cast<int>(rank)) before += slices[cta];
      total += slices[cta];
    }
    return total;
  }
  unsigned cluster_greatest(unsigned mine) {
    const u64* all = tell(mine);
    unsigned result = 0;
#pragma unroll
    for (int i = 0; i < CLUSTER_CTAS; ++i) result = max(result, static_cast<unsigned>(all[i]));
    return result;
  }
};
