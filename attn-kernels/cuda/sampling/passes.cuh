// Passes of a CTA over its blocks of a row. Results go to the leader, the first CTA of the cluster.
#pragma once
#include "sampling/row.cuh"

// Bins per factor of 2 of the probability, so that no token with mass is in the last.
constexpr float BINS_PER_LOG2 = 28.f;

// The bin of a value in a coarse histogram: it does not fall where the value rises.
inline unsigned coarse_bin(const Row& row, float x) {
  unsigned bin;
  if constexpr (FROM_PROBS) {
    bin = x > 0.f ? (__float_as_uint(row.greatest) - __float_as_uint(x)) >> 19 : BINS;
  } else {
    float shifted = fmaf(x - row.greatest, -BINS_PER_LOG2 * row.to_log2, 12582912.f);
    bin = __float_as_uint(shifted) - 0x4b400000u;
  }
  return min(bin, static_cast<unsigned>(BINS - 1));
}

// A sampled weight is added in two parts, of which this is the length of the lower.
constexpr int SAMPLE_BITS = 16;

inline void add_to_bin(SampleShared& s, unsigned bin, u64 weight) {
  unsigned low = static_cast<unsigned>(weight), high = static_cast<unsigned>(weight >> 32);
  unsigned before = atomicAdd(&s.low[bin], low);
  high += before + low < before;
  if (high) atomicAdd(&s.high[bin], high);
}

// Sums of lanes of which each is below 2^43.
inline u64 warp_sum_43(u64 x) {
#if __CUDA_ARCH__ >= 800
  unsigned low = __reduce_add_sync(FULL_WARP, static_cast<unsigned>(x) & 0xffffu);
  return (static_cast<u64>(__reduce_add_sync(FULL_WARP, static_cast<unsigned>(x >> 16))) << 16) + low;
#else
  return warp_sum(x);
#endif
}

template <int THREADS>
struct Passes {
  static constexpr int WARPS = THREADS / 32;
  SampleShared& s;
  const Row& row;
  Arrays arrays;
  u64* leader_sums;
  float* leader_maxima;
  int warp, lane, begin, end;  // the CTA's blocks

  Passes(SampleShared& shared, const Row& of)
      : s(shared), row(of), arrays(shared, of.p), warp(threadIdx.x / 32), lane(threadIdx.x % 32) {
    int blocks = arrays.blocks, each = (blocks + CLUSTER_CTAS - 1) / CLUSTER_CTAS;
    begin = min(static_cast<int>(cluster_rank()) * each, blocks), end = min(begin + each, blocks);
    leader_sums = of_cta(arrays.sums, 0), leader_maxima = of_cta(arrays.maxima, 0);
  }

  // The first pass: the greatest value of each block, and if asked for the sum of its masses relative to that.
  void measure(bool sums) {
    RawWords next[STEPS];
    if (begin + warp < end) row.fetch(begin + warp, next);
#pragma unroll 1
    for (int block = begin + warp; block < end; block += WARPS) {
      Values v = row.finish(block, next);
      if (block + WARPS < end) row.fetch(block + WARPS, next);
      float most = NOT_ALLOWED;
#pragma unroll
      for (float x : v.x) most = fmaxf(most, x);
      most = warp_greatest(most) + 0.f;  // both zeros are one
      u64 sum = 0;
      if (sums) {
        float maximum = most;
        if (most == lang::F32_INFINITY) Row::settle(v), maximum = CERTAIN;
#pragma unroll
        for (int i = 0; i < 4 * STEPS; i += 4)
          sum += row.block_mass(v.x[i], maximum) + row.block_mass(v.x[i + 1], maximum) +
                 row.block_mass(v.x[i + 2], maximum) + row.block_mass(v.x[i + 3], maximum);
        sum = warp_sum_43(sum);
      }
      if (lane == 0) {
        arrays.maxima[block] = most;
        leader_maxima[block] = most;
        leader_sums[block] = sum;
      }
    }
  }

  // A pass that the leader asks for.
  void run(const Pass& pass) {
    if (pass.kind == HISTOGRAM) {
      for (int i = threadIdx.x; i < BINS; i += THREADS) s.low[i] = s.high[i] = s.tokens[i] = 0;
      __syncthreads();
      if (pass.sampled)
        sample(pass);
      else
        count(pass);
    } else if (pass.kind == COLLECT) {
      if (threadIdx.x == 0) s.candidates = 0;
      __syncthreads();
      collect(pass);
    } else {
      write(pass);
    }
  }

 private:
  // Adds a token to its bin, if it has one.
  void add_token(const Pass& pass, float x, int id) {
    if (!(x >= value_of(pass.low_key) && pass.within.has(x, id))) return;
    u64 weight = pass.counts ? x > NO_MASS : row.mass(x);
    if (!weight) return;
    unsigned bin;
    if (pass.coarse) {
      bin = coarse_bin(row, x);
    } else {
      // zero has two patterns of bits, and its key may be beyond the end that compares as equal
      unsigned key = key_of(x);
      if (key < pass.low_key || key > pass.high_key) return;
      bin = (pass.high_key - key) >> pass.shift;
    }
    add_to_bin(s, bin, weight);
    atomicAdd(&s.tokens[bin], 1u);
  }
  // Adds a token to a coarse bin of a sample. Sums that overflow make a bracket that misses.
  void add_sampled(bool counts, Cut within, float x, int id, int scale) {
    if (!(x > NO_MASS && within.has(x, id))) return;
    u64 weight = (counts ? u64{1} : row.mass(x)) >> scale;
    unsigned bin = coarse_bin(row, x), low = static_cast<unsigned>(weight) & ((1u << SAMPLE_BITS) - 1);
    unsigned high = static_cast<unsigned>(weight >> SAMPLE_BITS);
    atomicAdd(&s.low[bin], low);
    if (high) atomicAdd(&s.high[bin], high);
  }

  void count(const Pass& pass) {
    float low = value_of(pass.low_key);
#pragma unroll 1
    for (int block = begin + warp; block < end; block += WARPS) {
      if (!(row.of_block(arrays.maxima[block]) >= low)) continue;
#pragma unroll 1
      for (int step = 0, id = Row::first_of(block); step < STEPS; ++step, id += 128) {
        float4 of = row.settled4(row.finish4(id, row.fetch4(id)));
        float x[4] = {of.x, of.y, of.z, of.w};
#pragma unroll
        for (int j = 0; j < 4; ++j) add_token(pass, x[j], id + j);
      }
    }
  }

  // Groups of 128 tokens, for all tokens but the greatest of each block, which count for themselves.
  void sample(const Pass& pass) {
    constexpr int BATCH = 4;
    const Cut within = pass.within;
    int shift = row.p.sample_shift, groups = ((end - begin) * STEPS + (1 << shift) - 1) >> shift;
#pragma unroll 1
    for (int i = warp; i < groups; i += WARPS * BATCH) {
      RawWords raw[BATCH];
      auto group = [&](int j) { return begin * STEPS + ((i + j * WARPS) << shift); };
#pragma unroll
      for (int j = 0; j < BATCH; ++j)
        if (i + j * WARPS < groups) raw[j] = row.fetch4(group(j) * 128 + lane * 4);
#pragma unroll
      for (int j = 0; j < BATCH; ++j) {
        if (i + j * WARPS >= groups) break;
        int id = group(j) * 128 + lane * 4;
        float4 of = row.finish4(id, raw[j]);
        float x[4] = {of.x, of.y, of.z, of.w}, maximum = arrays.maxima[group(j) / STEPS];
#pragma unroll
        for (int k = 0; k < 4; ++k)
          if (x[k] != maximum) add_sampled(pass.counts, within, x[k], id + k, 0);
      }
    }
    for (int block = begin + static_cast<int>(threadIdx.x); block < end; block += THREADS)
      add_sampled(pass.counts, within, arrays.maxima[block], -1, shift);
  }

  // The sums of blocks of what `above` has, and the candidates from `low` up to it.
  void collect(const Pass& pass) {
    const Cut above = pass.above, within = pass.within;
    const float low = pass.low, least = fminf(low, above.value);
    const bool sums = pass.sums, ties = pass.ties, counts = pass.counts;
#pragma unroll 1
    for (int block = begin + warp; block < end; block += WARPS) {
      u64 sum = 0;
      if (row.of_block(arrays.maxima[block]) >= least) {
        int id = Row::first_of(block);
        RawWords raw = row.fetch4(id), next = raw;
#pragma unroll 1
        for (int step = 0; step < STEPS; ++step, id += 128, raw = next) {
          if (step + 1 < STEPS) next = row.fetch4(id + 128);
          float4 of = row.settled4(row.finish4(id, raw));
          float x[4] = {of.x, of.y, of.z, of.w};
          unsigned mine = 0;
#pragma unroll
          for (int j = 0; j < 4; ++j) {
            bool has = above.has(x[j], id + j);
            if (has && sums) sum += ties ? x[j] == above.value : counts ? x[j] > NO_MASS : row.mass(x[j]);
            mine |= static_cast<unsigned>(!has && x[j] >= low && x[j] > NO_MASS && within.has(x[j], id + j)) << j;
          }
          if (__any_sync(FULL_WARP, mine != 0)) append(x, id, mine);
        }
        if (sums) sum = warp_sum_43(sum);
      }
      if (sums && lane == 0) leader_sums[block] = sum;
    }
  }

  void append(const float (&x)[4], int id, unsigned mine) {
#pragma unroll
    for (int j = 0; j < 4; ++j) {
      unsigned lanes = __ballot_sync(FULL_WARP, mine >> j & 1), at = 0;
      if (!lanes) continue;
      if (lane == 0) at = atomicAdd(&s.candidates, static_cast<unsigned>(__popc(lanes)));
      at = __shfl_sync(FULL_WARP, at, 0) + __popc(lanes & ((1u << lane) - 1));
      if ((mine >> j & 1) && at < static_cast<unsigned>(row.p.capacity)) arrays.values[at] = x[j], arrays.ids[at] = id + j;
    }
  }

  // Writes what `within` has of the row.
  void write(const Pass& pass) {
    const SampleParams& p = row.p;
    float scale = lang::sampling::prob_scale(pass.sum ? pass.sum : 1);
#pragma unroll 1
    for (int block = begin + warp; block < end; block += WARPS) {
#pragma unroll 1
      for (int step = 0, id = Row::first_of(block); step < STEPS; ++step, id += 128) {
        float4 of = row.settled4(row.finish4(id, row.fetch4(id)));
        float x[4] = {of.x, of.y, of.z, of.w}, y[4];
#pragma unroll
        for (int j = 0; j < 4; ++j) {
          bool has = pass.sum && pass.within.has(x[j], id + j);
          y[j] = p.keeps_logits ? (has ? x[j] : NOT_ALLOWED) : has && row.mass(x[j]) ? row.prob(x[j], scale) : 0.f;
        }
        float* to = p.kept + row.number * p.kept_row + id;
        if (p.kept_wide && id + 4 <= p.vocab) {
          *reinterpret_cast<float4*>(to) = {y[0], y[1], y[2], y[3]};
        } else {
#pragma unroll
          for (int j = 0; j < 4; ++j)
            if (id + j < p.vocab) to[j] = y[j];
        }
      }
    }
  }
};

// Runs the pass in shared memory. It is a call, since its code is long and the leader asks for passes at several points.
template <int THREADS>
__noinline__ void run_pass(const SampleParams& p, SampleShared& s, int number) {
  Row row(p, s, number);
  Passes<THREADS>(s, row).run(s.pass);
}
