// Kernel entries attn_sample_few, attn_sample_many and attn_sample_large: from a row of logits or probabilities to a
// token, by a cluster of CTAs. attn-core/src/sampling is the CPU reference, with the same bits. Grid: rows *
// CLUSTER_CTAS.
//
// The row is read from memory once and stays in shared memory, as far as it fits.
#pragma once
#include "sampling/draw.cuh"

// What is looked for in the order of the row, one after the other.
enum Stage { TOP_N, GREEDY, TOP_K, TOP_P, DRAW };

template <int THREADS, bool RESIDENT>
struct Sampler {
  using RowOf = Row<THREADS, RESIDENT>;
  const SampleParams& p;
  Team<THREADS> team;
  RowOf row;

  Sampler(const SampleParams& params, SampleShared& s, int source)
      : p(params),
        team(s),
        row(p, reinterpret_cast<float*>(&s + 1), blockIdx.x / CLUSTER_CTAS, source, static_cast<int>(team.rank)) {}

  void run(bool exists) {
    int number = row.slice.row;
    long long position = p.positions ? p.positions[number] : 0;
    float temperature = of_row(p.temperature, number, p.all_temperature);
    lang::sampling::Temper temper = lang::sampling::temper(temperature);
    row.to_log2 = temper.to_log2;
    float most = exists ? row.load() : NOT_ALLOWED;
    bool possible = row.settle(value_of(team.cluster_greatest(team.greatest(key_of(most)))));
    int id = -1;
    float log_prob = NOT_ALLOWED;
    Cut cut{NO_MASS, -1};
    u64 kept = 0, all = 0;
    if (possible) {
      cut = keep(most, temper.greedy && !FROM_PROBS, temperature, all);
      Walker<THREADS, RowOf> walker(team, row);
      bool needs_all = ((p.log_probs && !p.of_kept) || p.top_ids) && !all;
#pragma unroll 1
      for (int pass = needs_all ? 0 : 1; pass < 2; ++pass) {
        kept = walker.sum({pass == 0 ? Cut{NO_MASS, ALL_IDS} : cut, false});
        if (pass == 0) all = kept;
      }
      if (p.ids && kept) {
        u64 random = lang::random::bits64(of_row(p.seeds, number, p.all_seeds), static_cast<u64>(position), 0u);
        Found found = walker.find({cut, false}, lang::sampling::mulhi(random, kept));
        id = found.id;
        log_prob = row.log_prob(found.value, temper.inverse, p.of_kept ? kept : all);
      }
    }
    if (p.kept) write_kept(cut, kept);
    cluster_sync();  // counts have been read, and no CTA reads the memory of another
    if (team.rank) return;
    if (p.top_ids) write_top(possible, temper.inverse, all);
    if (threadIdx.x == 0 && p.ids) {
      p.ids[number] = id;
      p.positions[number] = position + 1;
      if (p.log_probs) p.log_probs[number] = log_prob;
      if (p.counts && id >= 0) ++p.counts[static_cast<long long>(number) * p.vocab + id];
    }
  }

  // What the filters keep. `all`: the sum of all masses, if it was needed. All selections are one loop, so that their
  // code is there once.
  Cut keep(float most, bool greedy, float temperature, u64& all) {
    Selector<THREADS, RowOf> selector(team, row);
    int top_k = of_row(p.top_k, row.slice.row, p.all_top_k);
    float top_p = of_row(p.top_p, row.slice.row, p.all_top_p), min_p = of_row(p.min_p, row.slice.row, p.all_min_p);
    const Cut whole{NO_MASS, ALL_IDS};
    Cut cut = whole;
    float floor = NO_MASS;
    bool limited = false;
#pragma unroll 1
    for (int stage = TOP_N; stage < DRAW; ++stage) {
      int tokens = stage == TOP_N ? p.top_count : top_k;
      bool counts = stage == TOP_N || stage == TOP_K;
      bool wanted = counts             ? tokens > 0 && (stage == TOP_N ? p.top_ids != nullptr : !greedy)
                    : stage == GREEDY ? greedy
                                      : top_p < 1.f && !greedy;
      if (!wanted) continue;
      Prefix prefix{row.greatest, 1, true};  // of a greedy row
      bool joint = stage == TOP_P && p.joint;
      if (stage != GREEDY) {
        float reached = counts && tokens < p.vocab && !row.settled ? selector.bound(most, tokens) : NO_MASS;
        if (stage == TOP_P && !joint) reached = floor;
        Target target{counts ? static_cast<u64>(tokens) : 0, top_p};
        u64 sum;
        prefix = selector.select(stage == TOP_P && !joint ? cut : whole, reached, counts, target, sum);
        if (stage == TOP_P && (joint || !limited)) all = sum;
      }
      Cut found = whole;
      if (prefix.found) {
        found = {prefix.value, ALL_IDS};
        if (prefix.ties) {
          Walker<THREADS, RowOf> walker(team, row);
          Weights weights{found, true};
          walker.sum(weights);
          found.id = walker.find(weights, prefix.ties - 1).id;
        }
      }
      if (stage == TOP_N) {
        gather_top(found);
      } else {
        cut = shorter(cut, found);
        floor = cut.value;
        limited = limited || prefix.found;
      }
    }
    if (min_p > 0.f && !greedy) {
      float least = FROM_PROBS ? fminf(min_p, 1.f) * row.greatest
                               : lang::sampling::min_p_logit(min_p, temperature, row.greatest);
      cut = shorter(cut, {least, ALL_IDS});
    }
    return cut;
  }

  void write_kept(Cut cut, u64 sum) {
    float* to = p.kept + row.slice.row * p.kept_row + row.first;
    float scale = lang::sampling::prob_scale(sum ? sum : 1);
    row.each([&](int i, const float(&x)[4]) {
      float y[4];
#pragma unroll
      for (int j = 0; j < 4; ++j) {
        bool has = sum && cut.has(x[j], row.first + i + j);
        y[j] = p.keeps_logits ? (has ? x[j] : NOT_ALLOWED) : has && row.mass(x[j]) ? row.prob(x[j], scale) : 0.f;
      }
      if (p.kept_wide && i + 4 <= row.slice.count) {
        *reinterpret_cast<float4*>(to + i) = {y[0], y[1], y[2], y[3]};
      } else {
#pragma unroll
        for (int j = 0; j < 4; ++j)
          if (i + j < row.slice.count) to[i + j] = y[j];
      }
    });
  }

  // Gathers the likeliest tokens in the first CTA.
  void gather_top(Cut cut) {
    SampleShared& s = team.s;
    if (threadIdx.x == 0) s.top_count = 0;
    cluster_sync();
    SampleShared& leader = *of_cta(&s, 0);
    row.each([&](int i, const float(&x)[4]) {
#pragma unroll
      for (int j = 0; j < 4; ++j) {
        if (!cut.has(x[j], row.first + i + j) || !row.mass(x[j])) continue;
        unsigned index = atomicAdd(&leader.top_count, 1u);
        if (index >= MAX_TOP) continue;
        leader.top_values[index] = x[j];
        leader.top_ids[index] = row.first + i + j;
      }
    });
  }

  // Ranks and writes them. A barrier of the cluster is between.
  void write_top(bool possible, float inverse, u64 sum) {
    SampleShared& s = team.s;
    int count = possible ? min(s.top_count, static_cast<unsigned>(MAX_TOP)) : 0u;
    long long at = static_cast<long long>(row.slice.row) * p.top_count;
    for (int i = threadIdx.x; i < p.top_count; i += THREADS) {
      int index = i, id = -1;
      float log_prob = NOT_ALLOWED;
      if (i < count) {
        float x = s.top_values[i];
        id = s.top_ids[i], index = 0;
        for (int j = 0; j < count; ++j)
          index += s.top_values[j] > x || (s.top_values[j] == x && s.top_ids[j] < id);
        log_prob = row.log_prob(x, inverse, sum);
      }
      p.top_ids[at + index] = id;
      p.top_log_probs[at + index] = log_prob;
    }
  }
};

template <int THREADS, bool RESIDENT>
inline void sample_row(const SampleParams& p) {
  extern __shared__ __align__(16) unsigned char shared_memory[];
  SampleShared& s = *reinterpret_cast<SampleShared*>(shared_memory);
  int number = blockIdx.x / CLUSTER_CTAS, source = of_row(p.indices, number, number);
  bool exists = 0 <= source && source < p.sources;
  if constexpr (CLUSTER_CTAS > 1) cluster_sync();  // all CTAs run before one writes to the memory of another
  Sampler<THREADS, RESIDENT>(p, s, exists ? source : 0).run(exists);
}

#if CLUSTER_SIZE > 1
#define SAMPLE_CLUSTER __cluster_dims__(CLUSTER_SIZE, 1, 1)
#else
#define SAMPLE_CLUSTER
#endif
extern "C" __global__ void SAMPLE_CLUSTER __launch_bounds__(SAMPLE_FEW, 1)
    attn_sample_few(const __grid_constant__ SampleParams p) {
  sample_row<SAMPLE_FEW, true>(p);
}
extern "C" __global__ void SAMPLE_CLUSTER __launch_bounds__(SAMPLE_MANY, 3)
    attn_sample_many(const __grid_constant__ SampleParams p) {
  sample_row<SAMPLE_MANY, true>(p);
}
// For slices that shared memory does not hold.
extern "C" __global__ void SAMPLE_CLUSTER __launch_bounds__(SAMPLE_LARGE, 1)
    attn_sample_large(const __grid_constant__ SampleParams p) {
  sample_row<SAMPLE_LARGE, false>(p);
}
