// Kernel entries attn_sample_few and attn_sample_many: from a row of logits or probabilities to a token, by a cluster of
// CTAs, which read blocks of the row, or by one. attn-core/src/sampling is the CPU reference, with the same bits. Grid:
// rows * CLUSTER_CTAS.
//
// An unfiltered row is read once, as an online softmax reads it. Filters read blocks again that have a token that may
// end what they keep.
#pragma once
#include "sampling/select.cuh"

// What is looked for in the order of the row, one after the other.
enum Stage { TOP_N, TOP_K, TOP_P, DRAW };

struct Filters {
  int top_k;
  float top_p, min_p;
  bool greedy, filtered;
};
inline Filters filters_of(const SampleParams& p, int row, bool greedy) {
  Filters of{of_row(p.top_k, row, p.all_top_k), of_row(p.top_p, row, p.all_top_p), of_row(p.min_p, row, p.all_min_p),
             greedy, false};
  of.filtered = greedy || of.top_k > 0 || of.top_p < 1.f || of.min_p > 0.f;
  return of;
}
// Whether the sum of all masses is read.
inline bool needs_all(Filters of, const SampleParams& p) {
  return !of.filtered || (p.log_probs && !p.of_kept) || p.top_ids ||
         (of.top_p < 1.f && !of.greedy && (p.joint || of.top_k <= 0));
}

// The first CTA of a cluster, which decides what the others do.
template <int THREADS>
struct Leader {
  const SampleParams& p;
  Team<THREADS>& team;
  SampleShared& s;
  const Row& row;
  Filters filters;
  float temperature;
  Selector<THREADS> selector;
  Finder<THREADS> finder;
  const Cut whole{NO_MASS, ALL_IDS};
  int top_count = 0;

  Leader(Team<THREADS>& t, const Row& of, Filters of_row, float row_temperature)
      : p(of.p), team(t), s(t.s), row(of), filters(of_row), temperature(row_temperature), selector(t, of), finder(t, of) {}

  void run(float inverse) {
    int number = row.number;
    long long position = p.positions ? p.positions[number] : 0;
    u64 random = lang::random::bits64(of_row(p.seeds, number, p.all_seeds), static_cast<u64>(position), 0u);
    Found found{-1, 0.f};
    u64 all = 0, kept = 0;
    Cut cut{NO_MASS, -1};
    if (FROM_PROBS ? row.greatest >= 1.17549435e-38f : row.greatest > NOT_ALLOWED) {
      if (needs_all(filters, p)) all = finder.sum({WHOLE, whole});
      if (!filters.filtered) {
        // before a selection overwrites the sums of blocks
        cut = whole, kept = all;
        if (p.ids) found = finder.find({WHOLE, whole}, lang::sampling::mulhi(random, kept));
      }
      bool selects = p.top_ids || (filters.filtered && !filters.greedy);
      Cut selected = selects ? keep(all) : whole;
      if (filters.greedy) {
        found = finder.first_greatest();
        cut = {row.greatest, found.id}, kept = row.mass(row.greatest);
      } else if (filters.filtered) {
        cut = selected, kept = selector.weigh(cut);
        if (p.ids) found = finder.find({KEPT, cut}, lang::sampling::mulhi(random, kept));
      }
    }
    if (p.kept) {
      Pass pass = Selector<THREADS>::pass_of(WRITE, cut);
      pass.sum = kept;
      selector.run(pass);
    }
    selector.run(Selector<THREADS>::pass_of(DONE, cut));
    if (p.top_ids) write_top(inverse, all);
    if (threadIdx.x == 0 && p.ids) {
      p.ids[number] = found.id;
      p.positions[number] = position + 1;
      if (p.log_probs)
        p.log_probs[number] = found.id < 0 ? NOT_ALLOWED : row.log_prob(found.value, inverse, p.of_kept ? kept : all);
      if (p.counts && found.id >= 0) ++p.counts[static_cast<long long>(number) * p.vocab + found.id];
    }
  }

  // What the filters keep of a row that is not greedy, and the likeliest tokens. All selections are one loop, so that
  // their code is there once.
  Cut keep(u64 all) {
    const bool greedy = filters.greedy;
    const int top_k = filters.top_k;
    const float top_p = filters.top_p, min_p = filters.min_p;
    Cut cut = whole;
#pragma unroll 1
    for (int stage = TOP_N; stage < DRAW; ++stage) {
      int tokens = stage == TOP_N ? p.top_count : top_k;
      bool counts = stage != TOP_P;
      bool wanted = stage == TOP_N ? p.top_ids && tokens > 0 : !greedy && (counts ? tokens > 0 && tokens <= p.vocab : top_p < 1.f);
      if (!wanted) continue;
      u64 number = tokens, total = 0;
      if (!counts) {
        total = p.joint || top_k <= 0 ? all : selector.weigh(cut);
        number = lang::sampling::share_target(total, top_p);
      }
      Cut within = counts || p.joint ? whole : cut, found = whole;
      int reach = counts ? max(tokens, greedy ? 0 : top_k) : 0;
      selector.select(within, counts, number, total, reach, found);
      if (stage == TOP_N)
        gather_top(found);
      else
        cut = shorter(cut, found);
    }
    if (min_p > 0.f) {
      float least = FROM_PROBS ? fminf(min_p, 1.f) * row.greatest
                               : lang::sampling::min_p_logit(min_p, temperature, row.greatest);
      cut = shorter(cut, {least, ALL_IDS});
    }
    return cut;
  }

  // Copies the likeliest tokens out of the list, in any order.
  void gather_top(Cut cut) {
    bool only = selector.list(cut);
    if (threadIdx.x == 0) s.bound = 0;
    __syncthreads();
    for (int i = threadIdx.x; i < static_cast<int>(s.candidates); i += THREADS) {
      float x = selector.arrays.values[i];
      int id = selector.arrays.ids[i];
      if (!cut.has(x, id) || !row.mass(x)) continue;
      unsigned index = atomicAdd(&s.bound, 1u);
      if (index < MAX_TOP) s.top_values[index] = x, s.top_ids[index] = id;
    }
    __syncthreads();
    top_count = min(s.bound, static_cast<unsigned>(MAX_TOP));
    if (only) selector.listed = false;
  }

  // Ranks and writes them.
  void write_top(float inverse, u64 sum) {
    long long at = static_cast<long long>(row.number) * p.top_count;
    for (int i = threadIdx.x; i < p.top_count; i += THREADS) {
      int index = i, id = -1;
      float log_prob = NOT_ALLOWED;
      if (i < top_count) {
        float x = s.top_values[i];
        id = s.top_ids[i], index = 0;
        for (int j = 0; j < top_count; ++j)
          index += s.top_values[j] > x || (s.top_values[j] == x && s.top_ids[j] < id);
        log_prob = row.log_prob(x, inverse, sum);
      }
      p.top_ids[at + index] = id;
      p.top_log_probs[at + index] = log_prob;
    }
  }
};

template <int THREADS>
inline void sample_row(const SampleParams& p) {
  extern __shared__ __align__(16) unsigned char shared_memory[];
  SampleShared& s = *reinterpret_cast<SampleShared*>(shared_memory);
  int number = blockIdx.x / CLUSTER_CTAS;
  float temperature = of_row(p.temperature, number, p.all_temperature);
  lang::sampling::Temper temper = lang::sampling::temper(temperature);
  if (threadIdx.x == 0) s.greatest = 0.f, s.to_log2 = temper.to_log2, s.settled = false;
  cluster_sync();  // all CTAs run before one writes to the leader
  Team<THREADS> team(s);
  bool greedy = temper.greedy && !FROM_PROBS;
  {
    // registers hold this row: no call takes its address
    Row row(p, s, number);
    Passes<THREADS>(s, row).measure(needs_all(filters_of(p, number, greedy), p));
  }
  cluster_sync();
  if (cluster_rank() == 0) {
    Row row(p, s, number);
    Arrays arrays(s, p);
    float most = NOT_ALLOWED;
    for (int i = threadIdx.x; i < arrays.blocks; i += THREADS) most = fmaxf(most, arrays.maxima[i]);
    most = row.exists() ? team.greatest(most) : NOT_ALLOWED;
    row.settled = most == lang::F32_INFINITY;
    row.greatest = row.settled ? CERTAIN : most;
    if (threadIdx.x == 0) s.greatest = row.greatest, s.settled = row.settled;
    Leader<THREADS>(team, row, filters_of(p, number, greedy), temperature).run(temper.inverse);
    cluster_sync();
    return;
  }
  for (;;) {
    cluster_sync();
    if (threadIdx.x == 0) {
      const SampleShared& leader = *of_cta(&s, 0);
      s.pass = leader.pass, s.greatest = leader.greatest, s.settled = leader.settled;
    }
    __syncthreads();
    if (s.pass.kind != DONE) run_pass<THREADS>(p, s, number);
    cluster_sync();  // the leader is there until all have read its pass
    if (s.pass.kind == DONE) return;
  }
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
extern "C" __global__ void SAMPLE_CLUSTER __launch_bounds__(SAMPLE_MANY, 1024 / SAMPLE_MANY)
    attn_sample_many(const __grid_constant__ SampleParams p) {
  sample_row<SAMPLE_MANY>(p);
}
