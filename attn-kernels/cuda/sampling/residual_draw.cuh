// Draws a token of a row by the masses of max(target - draft, 0), by a cluster of CTAs. Sums are of integers, so that
// every layout of threads draws the same token. Each CTA has a slice of the row, and each warp a segment of the slice.
#pragma once
#include "arch/cluster.cuh"
#include "arch/reduce.cuh"
#include "ops/index.cuh"
#include "sampling/fixed_point.cuh"

constexpr int VERIFY_WARPS = VERIFY_THREADS / 32, MAX_WARPS = 32;

struct DrawShared {
  u64 slices[2];  // of both attempts; the other CTAs of the cluster read them
  u64 segments[MAX_WARPS];
  u64 tiles[2][MAX_WARPS];  // two, so that the next is written while this one is read
};

// Where a thread is in its row.
struct RowSlice {
  int slice;  // tokens of a CTA, a multiple of 128
  int vocab;
  int rank = static_cast<int>(cluster_rank()), warp = threadIdx.x / 32, lane = threadIdx.x % 32;

  // The end of a warp's segment of the slice; of warp -1 its beginning.
  int segment_end(int of_warp) const {
    int first = rank * slice, segment = ((slice + VERIFY_WARPS - 1) / VERIFY_WARPS + 127) / 128 * 128;
    return min(first + min((of_warp + 1) * segment, slice), max(vocab, first));
  }
};

// A row of masses.
struct MassRow {
  const float* target;
  const float* draft;  // null: zeros
  const int* refused;  // tokens without mass
  int refused_count, vocab;
  bool wide;  // whether rows begin at multiples of 16 bytes

  float4 load4(const float* row, int i) const {
    if (wide && i + 4 <= vocab) return *reinterpret_cast<const float4*>(row + i);
    auto at = [&](int j) { return i + j < vocab ? row[i + j] : 0.f; };
    return {at(0), at(1), at(2), at(3)};
  }
  // The masses of four tokens from `i` on.
  void masses4(int i, float4 t, float4 d, u64 (&mass)[4]) const {
    mass[0] = lang::sampling::excess_mass(t.x, d.x);
    mass[1] = lang::sampling::excess_mass(t.y, d.y);
    mass[2] = lang::sampling::excess_mass(t.z, d.z);
    mass[3] = lang::sampling::excess_mass(t.w, d.w);
#pragma unroll 1
    for (int r = 0; r < refused_count; ++r) {
      int j = refused[r] - i;
#pragma unroll
      for (int k = 0; k < 4; ++k)
        if (j == k) mass[k] = 0;
    }
  }
};

// The mass of this warp's segment.
inline u64 segment_sum(const MassRow& row, const RowSlice& at) {
  constexpr int BATCH = 4;
  int end = at.segment_end(at.warp);
  u64 sum = 0;
#pragma unroll 1
  for (int begin = at.segment_end(at.warp - 1) + at.lane * 4; begin < end; begin += 128 * BATCH) {
    float4 t[BATCH] = {}, d[BATCH] = {};
#pragma unroll
    for (int step = 0; step < BATCH; ++step) {
      int i = begin + 128 * step;
      if (i >= end) continue;
      t[step] = row.load4(row.target, i);
      if (row.draft) d[step] = row.load4(row.draft, i);
    }
#pragma unroll
    for (int step = 0; step < BATCH; ++step) {
      u64 mass[4];
      row.masses4(begin + 128 * step, t[step], d[step], mass);
      sum += mass[0] + mass[1] + mass[2] + mass[3];
    }
  }
  return sum_of_neighbours<32>(sum);
}

// Finds the first token of this CTA's slice up to which masses exceed `number`; those before the slice sum to `before`.
inline void find_token(const MassRow& row, const RowSlice& at, DrawShared& s, u64 number, u64 before, int* to) {
  u64 sum = at.lane < VERIFY_WARPS ? s.segments[at.lane] : 0;
  u64 start = before + sum_through(sum, at.lane) - sum;
  int segment = __ffs(__ballot_sync(0xffffffffu, start <= number && number - start < sum)) - 1;
  start = __shfl_sync(0xffffffffu, start, segment);
  int end = at.segment_end(segment), round = 0;
#pragma unroll 1
  for (int begin = at.segment_end(segment - 1); begin < end; begin += 4 * VERIFY_THREADS, round ^= 1) {
    int i = begin + 4 * static_cast<int>(threadIdx.x);
    u64 mass[4] = {};
    if (i < end) row.masses4(i, row.load4(row.target, i), row.draft ? row.load4(row.draft, i) : float4{}, mass);
    u64 mine = mass[0] + mass[1] + mass[2] + mass[3], through = sum_through(mine, at.lane);
    if (at.lane == 31) s.tiles[round][at.warp] = through;
    __syncthreads();
    u64 of_warp = at.lane < VERIFY_WARPS ? s.tiles[round][at.lane] : 0;
    u64 from = start + sum_of_neighbours<32>(at.lane < at.warp ? of_warp : 0) + through - mine;
    if (from <= number && number - from < mine) {
      int j = 0;
#pragma unroll
      for (int k = 0; k < 3; ++k)
        if (j == k && number - from >= mass[k]) from += mass[k], ++j;
      *to = i + j;
    }
    start += sum_of_neighbours<32>(of_warp);
    if (number < start) break;
  }
}

// The first token up to which masses exceed `random` of their sum. Returns whether there is one.
inline bool draw(const MassRow& row, const RowSlice& at, DrawShared& s, int attempt, u64 random, int* to) {
  u64 sum = segment_sum(row, at);
  if (at.lane == 0) s.segments[at.warp] = sum;
  __syncthreads();
  u64 slice = sum_of_neighbours<32>(at.lane < VERIFY_WARPS ? s.segments[at.lane] : 0);
  if (threadIdx.x == 0) s.slices[attempt] = slice;
  cluster_sync();
  u64 before = 0, total = 0;
#pragma unroll
  for (int cta = 0; cta < CLUSTER_CTAS; ++cta) {
    u64 other = *of_cta(&s.slices[attempt], cta);
    if (cta < at.rank) before += other;
    total += other;
  }
  if (!total) return false;
  u64 number = lang::sampling::mulhi(random, total);
  if (before <= number && number - before < slice) find_token(row, at, s, number, before, to);
  return true;
}

// Draws a token: if nothing has mass, by the masses of the target alone, and without those too -1. All threads of the
// cluster wait for each other between what they read before and what they write behind.
inline void draw_token(MassRow row, int slice, DrawShared& s, u64 random, int* to) {
  RowSlice at{slice, row.vocab};
  bool drawn = false;
#pragma unroll 1
  for (int attempt = 0; attempt < 2 && !drawn; ++attempt) {
    drawn = draw(row, at, s, attempt, random, to);
    row.draft = nullptr, row.refused_count = 0;
  }
  if (!drawn && at.rank == 0 && threadIdx.x == 0) *to = -1;
  // a CTA that has ended has no memory that others could read
  if (CLUSTER_CTAS > 1) cluster_sync();
}
