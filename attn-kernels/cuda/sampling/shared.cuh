// Shared memory of a CTA that samples, and what the CTAs of a cluster tell each other through it.
#pragma once
#include "arch/cluster.cuh"
#include "arch/element.cuh"
#include "ops/index.cuh"
#include "sampling/params.cuh"
#include "lang/random.cuh"
#include "sampling/fixed_point.cuh"

constexpr int BINS = 1024;
// Bins that a CTA merges, of those of its cluster.
constexpr int BIN_SHARE = BINS / CLUSTER_CTAS;
constexpr int MAX_WARPS = 32;
constexpr int MAX_TOP = 64;

struct __align__(16) SampleShared {
  // Sums of 64 bits in two words: shared memory adds 32 bits at a time.
  unsigned low[BINS], high[BINS];
  u64 merged[BIN_SHARE];
  unsigned maxima[256];
  // What each CTA tells all others; two, so that the next is written while this one is read.
  u64 told[2][2][CLUSTER_CTAS];
  u64 of_warp[2][MAX_WARPS];
  // Masses of the warps' segments of tokens.
  u64 segment[MAX_WARPS];
  u64 crossing[3];
  // The likeliest tokens, in the first CTA.
  float top_values[MAX_TOP];
  int top_ids[MAX_TOP];
  unsigned bound, top_count;
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
  int round = 0, turn = 0;

  explicit Team(SampleShared& shared)
      : s(shared), rank(cluster_rank()), warp(threadIdx.x / 32), lane(threadIdx.x % 32) {}

  static u64 warp_sum(u64 x) {
#pragma unroll
    for (int step = 16; step > 0; step /= 2) x += __shfl_xor_sync(0xffffffffu, x, step);
    return x;
  }

  // The sum over the CTA; in every thread.
  u64 sum(u64 mine) {
    u64* all = s.of_warp[turn ^= 1];
    mine = warp_sum(mine);
    if (lane == 0) all[warp] = mine;
    __syncthreads();
    return warp_sum(lane < WARPS ? all[lane] : 0);
  }

  // The greatest over the CTA; in every thread.
  unsigned greatest(unsigned mine) {
    u64* all = s.of_warp[turn ^= 1];
    mine = warp_greatest(mine);
    if (lane == 0) all[warp] = mine;
    __syncthreads();
    return warp_greatest(lane < WARPS ? static_cast<unsigned>(all[lane]) : 0);
  }
  static unsigned warp_greatest(unsigned x) {
#pragma unroll
    for (int step = 16; step > 0; step /= 2) x = max(x, __shfl_xor_sync(0xffffffffu, x, step));
    return x;
  }

  // Tells all CTAs of the cluster two numbers, which every thread has. Returns those of all CTAs, by their ranks: first
  // all first numbers. They stay until the next but one call.
  const u64* tell(u64 first, u64 second = 0) {
    round ^= 1;
    if (threadIdx.x < CLUSTER_CTAS) {
      u64* to = of_cta(&s.told[round][0][rank], threadIdx.x);
      to[0] = first;
      to[CLUSTER_CTAS] = second;
    }
    cluster_sync();
    return s.told[round][0];
  }

  unsigned cluster_greatest(unsigned mine) {
    const u64* all = tell(mine);
    unsigned result = 0;
#pragma unroll
    for (int i = 0; i < CLUSTER_CTAS; ++i) result = max(result, static_cast<unsigned>(all[i]));
    return result;
  }
};
