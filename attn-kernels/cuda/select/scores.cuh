// Scores of keys or of blocks for an index query. Grid (tokens * tiles): a CTA has a token, a warp a unit of its keys,
// which is a block where blocks have scores.
#pragma once
#include "select/products.cuh"

constexpr int SCORE_WARPS = OP_THREADS / 32;

struct UnitScores {
  const IndexScoresParams& p;
  const IndexRow& row;
  const SharedQueries& rows;
  int token;

  // The keys from `first` on, which `end` ends. A lane's key is past the last, or has no place: its offset is -1.
  long long load(Products& products, int first, int end) const {
    int position = first + static_cast<int>(threadIdx.x % 32);
    long long offset = position < end ? key_offset(p, row, position) : -1;
    if (position < end && offset < 0) count_skipped(p.keys.status);
    products.load(p, offset);
    return offset;
  }

  // Sums of weighted products above 0.
  void of_keys(int first, int end) const {
    float* to = p.scores + token * p.scores_token;
#pragma unroll 1
    for (; first < end; first += KEYS) {
      Products products;
      long long offset = load(products, first, end);
      float sums[LANE_KEYS] = {};
      products.each(rows, [&](int head, int key, float product) {
        sums[key] += rows.weights[head] * fmaxf(product, 0.f);
      });
      int lane = threadIdx.x % 32;
      float mine = sums[0];
#pragma unroll
      for (int i = 0; i < LANE_KEYS; ++i) {
        sums[i] = sum_of_neighbours<HEAD_LANES>(sums[i]);
        if (lane % HEAD_LANES == i) mine = sums[i];
      }
      // each lane writes one of the 32
      int key = key_of_lane(lane % LANE_KEYS);
      bool has = __shfl_sync(0xffffffffu, offset, key) >= 0;
      if (first + key < end) to[first + key] = has ? mine : -lang::F32_INFINITY;
    }
  }

  // The greatest product of each head.
  void of_block(int block, int first, int end, float* greatest) const {
    int lane = threadIdx.x % 32;
    for (int head = lane; head < INDEX_HEADS; head += 32) greatest[head] = -lang::F32_INFINITY;
    __syncwarp();
#pragma unroll 1
    for (; first < end; first += KEYS) {
      Products products;
      long long offset = load(products, first, end);
      unsigned exist = __ballot_sync(0xffffffffu, offset >= 0);
      float best[2] = {-lang::F32_INFINITY, -lang::F32_INFINITY};
      products.each(rows, [&](int head, int key, float product) {
        float& of_head = best[LANE_KEYS == 1 ? 0 : head % 2];
        if (exist >> key_of_lane(key) & 1) of_head = fmaxf(of_head, product);
        if (key != LANE_KEYS - 1 || (LANE_KEYS > 1 && head % 2 == 0)) return;
        // the last product of a group of heads
#pragma unroll
        for (int i = 0; i < (LANE_KEYS == 1 ? 1 : 2); ++i) {
          best[i] = max_across<HEAD_LANES>(best[i]);
          int of = LANE_KEYS == 1 ? head : head - 1 + i;
          if (lane < HEAD_LANES && of < INDEX_HEADS) greatest[of] = fmaxf(greatest[of], best[i]);
          best[i] = -lang::F32_INFINITY;
        }
      });
    }
    __syncwarp();
    float* to = p.scores + token * p.scores_token + block;
    for (int head = lane; head < INDEX_HEADS; head += 32) to[head * p.scores_head] = greatest[head];
  }
};

extern "C" __global__ void __launch_bounds__(OP_THREADS, INDEX_DIM > 128 ? 1 : 2)
    attn_index_scores(const __grid_constant__ IndexScoresParams p) {
  __shared__ __align__(16) SharedQueries rows;
  __shared__ float greatest[INDEX_BLOCKS ? SCORE_WARPS : 1][INDEX_HEADS];
  int token = blockIdx.x / p.tiles, tile = blockIdx.x % p.tiles, warp = threadIdx.x / 32;
  IndexRow row = index_row(p, token);
  int held = INDEX_BLOCKS ? static_cast<int>(min(static_cast<long long>(p.columns) * p.unit, 0x40000000ll)) : p.columns;
  int end = min(row.visible, held);
  if (tile == 0 && threadIdx.x == 0) {
    p.counts[token] = INDEX_BLOCKS ? (end + p.unit - 1) / p.unit : end;
    if (row.visible > end) count_skipped(p.keys.status, static_cast<unsigned>(row.visible - end));
  }
  long long first = (static_cast<long long>(tile) * SCORE_WARPS) * p.unit;
  if (first >= end) return;
  load_queries(p, token, rows);
  __syncthreads();
  first += static_cast<long long>(warp) * p.unit;
  if (first >= end) return;
  UnitScores unit{p, row, rows, token};
  int from = static_cast<int>(first), to = static_cast<int>(min(first + p.unit, static_cast<long long>(end)));
  if constexpr (INDEX_BLOCKS)
    unit.of_block(tile * SCORE_WARPS + warp, from, to, greatest[warp]);
  else
    unit.of_keys(from, to);
}
