// Finds the first token, by ids, up to which weights exceed a number: by the sums of blocks, then within a block.
#pragma once
#include "sampling/passes.cuh"

struct Found {
  int id;
  float value;
};

// What tokens weigh: the masses of an unfiltered row, of which blocks have sums relative to their greatest value; the
// masses of what `cut` has; 1 for a token of its last value.
enum WeightKind { WHOLE, KEPT, TIES };
struct Weights {
  WeightKind kind;
  Cut cut;
};

template <int THREADS>
struct Finder {
  Team<THREADS>& team;
  const Row& row;
  Arrays arrays;

  Finder(Team<THREADS>& t, const Row& of) : team(t), row(of), arrays(t.s, of.p) {}

  // The sum over all blocks, which have their sums.
  u64 sum(Weights weights) const {
    u64 mine = 0;
    for (int i = threadIdx.x; i < arrays.blocks; i += THREADS) mine += of_block(weights, i);
    return team.sum(mine);
  }

  // The first token up to which weights exceed `number`, which is below their sum.
  Found find(Weights weights, u64 number) const {
    SampleShared& s = team.s;
    int each = (arrays.blocks + THREADS - 1) / THREADS, from = min(static_cast<int>(threadIdx.x) * each, arrays.blocks);
    int to = min(from + each, arrays.blocks);
    u64 mine = 0, total;
    for (int i = from; i < to; ++i) mine += of_block(weights, i);
    if (threadIdx.x == 0) s.crossing[0] = s.crossing[1] = 0;
    u64 first = team.before(mine, total);
    if (first <= number && number - first < mine) {
#pragma unroll 1
      for (int i = from; i < to; ++i) {
        u64 of = of_block(weights, i);
        if (number - first < of) {
          s.crossing[0] = i, s.crossing[1] = number - first;
          break;
        }
        first += of;
      }
    }
    __syncthreads();
    if (team.warp == 0) walk(weights, static_cast<int>(s.crossing[0]), s.crossing[1]);
    __syncthreads();
    u64 found = s.crossing[2];
    return {static_cast<int>(found), __uint_as_float(static_cast<unsigned>(found >> 32))};
  }

  // The first token of the greatest value.
  Found first_greatest() const {
    SampleShared& s = team.s;
    if (threadIdx.x == 0) s.bound = 0xffffffffu;
    __syncthreads();
    for (int i = threadIdx.x; i < arrays.blocks; i += THREADS)
      if (row.of_block(arrays.maxima[i]) == row.greatest) atomicMin(&s.bound, static_cast<unsigned>(i));
    __syncthreads();
    if (team.warp == 0) walk({TIES, {row.greatest, ALL_IDS}}, static_cast<int>(s.bound), 0);
    __syncthreads();
    return {static_cast<int>(s.crossing[2]), row.greatest};
  }

 private:
  u64 of_block(Weights weights, int block) const {
    u64 sum = arrays.sums[block];
    return weights.kind == WHOLE ? row.scaled(sum, row.of_block(arrays.maxima[block])) : sum;
  }

  // Of one warp.
  void walk(Weights weights, int block, u64 number) const {
    float maximum = row.of_block(arrays.maxima[block]);
    auto exceeds = [&](u64 sum) { return (weights.kind == WHOLE ? row.scaled(sum, maximum) : sum) > number; };
    u64 first = 0;
#pragma unroll 1
    for (int step = 0, id = Row::first_of(block); step < STEPS; ++step, id += 128) {
      float4 of = row.settled4(row.finish4(id, row.fetch4(id)));
      float x[4] = {of.x, of.y, of.z, of.w};
      u64 w[4], mine = 0;
#pragma unroll
      for (int j = 0; j < 4; ++j) {
        w[j] = weights.kind == WHOLE  ? row.block_mass(x[j], maximum)
               : weights.kind == TIES ? x[j] == weights.cut.value
                                      : (weights.cut.has(x[j], id + j) ? row.mass(x[j]) : 0);
        mine += w[j];
      }
      u64 through = warp_through(mine), start = first + through - mine;
      if (!exceeds(start) && exceeds(start + mine)) {
        int j = 0;
#pragma unroll
        for (int k = 0; k < 3; ++k)
          if (j == k && !exceeds(start + w[k])) start += w[k], ++j;
        float value = j == 0 ? x[0] : j == 1 ? x[1] : j == 2 ? x[2] : x[3];
        team.s.crossing[2] = static_cast<u64>(__float_as_uint(value)) << 32 | static_cast<unsigned>(id + j);
      }
      first += __shfl_sync(FULL_WARP, through, 31);
    }
  }
};
