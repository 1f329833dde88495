// Kernel entries attn_sample_few and attn_sample_many: from a row of logits or probabilities to a token, by a cluster of
// CTAs. attn-core/src/sampling is the CPU reference, with the same bits. Grid: rows * CLUSTER_CTAS.
//
// The row is read from memory once and stays in shared memory, as far as it fits.
#pragma once
#include "sampling/draw.cuh"

template <int THREADS>
struct Sampler {
  const SampleParams& p;
  Team<THREADS> team;
  Row<THREADS> row;

  struct Result {
    int id = -1;
    float log_prob = NOT_ALLOWED;
  };

  static Row<THREADS> row_of(const SampleParams& p, SampleShared& s, int source, unsigned rank) {
    return Row<THREADS>(p, reinterpret_cast<float*>(&s + 1), blockIdx.x / CLUSTER_CTAS, source, static_cast<int>(rank));
  }
  Sampler(const SampleParams& params, SampleShared& s, int source)
      : p(params), team(s), row(row_of(params, s, source, team.rank)) {}

  void run(bool exists) {
    int number = row.slice.row;
    long long position = p.positions ? p.positions[number] : 0;
    float temperature = of_row(p.temperature, number, p.all_temperature);
    lang::sampling::Temper temper = lang::sampling::temper(temperature);
    row.to_log2 = temper.to_log2;
    float most = exists ? row.load() : NOT_ALLOWED;
    __syncthreads();
    bool possible = row.settle(value_of(team.cluster_greatest(team.greatest(key_of(most)))));
    Result result;
    Cut cut{NO_MASS, -1};
    u64 kept = 0;
    if (possible) {
      u64 all = 0;
      cut = keep(most, temper.greedy, temperature, all);
      bool needs_all = !p.of_kept && (p.log_probs || p.top_ids);
      if (needs_all && !all) {
        auto whole = [&](float x, int) { return row.mass(x); };
        all = Walker<THREADS, decltype(whole)>(team, row, whole).sum(NO_MASS);
      }
      auto within = [&](float x, int id) -> u64 { return cut.has(x, id) ? row.mass(x) : 0; };
      Walker<THREADS, decltype(within)> walker(team, row, within);
      kept = walker.sum(cut.value);
      if (p.ids && kept) {
        u64 random = lang::random::bits64(of_row(p.seeds, number, p.all_seeds), static_cast<u64>(position), 0u);
        Found found = walker.find(lang::sampling::mulhi(random, kept));
        result = {found.id, row.log_prob(found.value, temper.inverse, p.of_kept ? kept : all)};
      }
      if (p.top_ids) top(most, temper.inverse, all);
    } else if (p.top_ids && team.rank == 0) {
      for (int i = threadIdx.x; i < p.top_count; i += THREADS) write_top(i, -1, NOT_ALLOWED);
    }
    if (p.kept) write_kept(cut, kept);
    cluster_sync();  // counts have been read, and no CTA reads the memory of another
    if (team.rank == 0 && threadIdx.x == 0 && p.ids) {
      p.ids[number] = result.id;
      p.positions[number] = position + 1;
      if (p.log_probs) p.log_probs[number] = result.log_prob;
      if (p.counts && result.id >= 0) ++p.counts[static_cast<long long>(number) * p.vocab + result.id];
    }
  }

  // What the filters keep. `all`: the sum of all masses, if it was needed.
  Cut keep(float most, bool greedy, float temperature, u64& all) {
    Selector<THREADS> selector(team, row);
    Cut cut{NO_MASS, ALL_IDS};
    if (greedy && !FROM_PROBS) return {row.greatest, selector.tie(row.greatest, 1)};
    int top_k = of_row(p.top_k, row.slice.row, p.all_top_k);
    float top_p = of_row(p.top_p, row.slice.row, p.all_top_p), min_p = of_row(p.min_p, row.slice.row, p.all_min_p);
    float floor = NO_MASS;
    if (top_k > 0 && top_k < p.vocab) {
      floor = row.settled ? NO_MASS : selector.bound(most, top_k);
      u64 tokens;
      cut = selector.template select<CountTokens>(cut, floor, {static_cast<u64>(top_k), 0.f}, tokens);
      floor = cut.value;
    }
    if (top_p < 1.f) {
      bool limited = cut.id != ALL_IDS || cut.value != NO_MASS;
      Cut of = p.joint ? Cut{NO_MASS, ALL_IDS} : cut;
      u64 sum;
      cut = shorter(cut, selector.template select<AddMasses>(of, p.joint ? NO_MASS : floor, {0, top_p}, sum));
      if (p.joint || !limited) all = sum;
    }
    if (min_p > 0.f) {
      float least = FROM_PROBS ? fminf(min_p, 1.f) * row.greatest
                               : lang::sampling::min_p_logit(min_p, temperature, row.greatest);
      cut = shorter(cut, {least, ALL_IDS});
    }
    return cut;
  }

  __noinline__ void write_kept(Cut cut, u64 sum) {
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

  void write_top(int place, int id, float log_prob) {
    long long at = static_cast<long long>(row.slice.row) * p.top_count + place;
    p.top_ids[at] = id;
    p.top_log_probs[at] = log_prob;
  }

  // The likeliest tokens. The first CTA gathers them where the histogram was, and ranks them.
  __noinline__ void top(float most, float inverse, u64 all) {
    Selector<THREADS> selector(team, row);
    Cut cut{NO_MASS, ALL_IDS};
    if (p.top_count < p.vocab) {
      float floor = row.settled ? NO_MASS : selector.bound(most, p.top_count);
      u64 tokens;
      cut = selector.template select<CountTokens>(cut, floor, {static_cast<u64>(p.top_count), 0.f}, tokens);
    }
    SampleShared& s = team.s;
    if (threadIdx.x == 0) s.bound = 0;
    cluster_sync();
    SampleShared& leader = *of_cta(&s, 0);
    row.each([&](int i, const float(&x)[4]) {
#pragma unroll
      for (int j = 0; j < 4; ++j) {
        if (!cut.has(x[j], row.first + i + j) || !row.mass(x[j])) continue;
        unsigned place = atomicAdd(&leader.bound, 1u);
        if (place >= MAX_TOP) continue;
        leader.low[place] = __float_as_uint(x[j]);
        leader.high[place] = row.first + i + j;
      }
    });
    cluster_sync();
    if (team.rank) return;
    int count = min(s.bound, static_cast<unsigned>(MAX_TOP));
    for (int i = threadIdx.x; i < p.top_count; i += THREADS) {
      if (i >= count) {
        write_top(i, -1, NOT_ALLOWED);
        continue;
      }
      float x = __uint_as_float(s.low[i]);
      int id = s.high[i], place = 0;
      for (int j = 0; j < count; ++j) {
        float y = __uint_as_float(s.low[j]);
        place += y > x || (y == x && static_cast<int>(s.high[j]) < id);
      }
      write_top(place, id, row.log_prob(x, inverse, all));
    }
  }
};

template <int THREADS>
inline void sample_row(const SampleParams& p) {
  extern __shared__ __align__(16) unsigned char shared_memory[];
  SampleShared& s = *reinterpret_cast<SampleShared*>(shared_memory);
  int number = blockIdx.x / CLUSTER_CTAS, source = of_row(p.indices, number, number);
  bool exists = 0 <= source && source < p.sources;
  Sampler<THREADS>(p, s, exists ? source : 0).run(exists);
}

#if CLUSTER_SIZE > 1
#define SAMPLE_CLUSTER __cluster_dims__(CLUSTER_SIZE, 1, 1)
#else
#define SAMPLE_CLUSTER
#endif
extern "C" __global__ void SAMPLE_CLUSTER __launch_bounds__(SAMPLE_FEW, 1)
    attn_sample_few(const __grid_constant__ SampleParams p) {
  sample_row<SAMPLE_FEW>(p);
}
extern "C" __global__ void SAMPLE_CLUSTER __launch_bounds__(SAMPLE_MANY, 3)
    attn_sample_many(const __grid_constant__ SampleParams p) {
  sample_row<SAMPLE_MANY>(p);
}
