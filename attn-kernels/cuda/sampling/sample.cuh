// Kernel entries attn_sample_few, attn_sample_many and attn_sample_large: from a row of logits or probabilities to a
// token, by a cluster of CTAs. attn-core/src/sampling is the CPU reference, with the same bits. Grid: rows *
// CLUSTER_CTAS.
//
// The first read of the row finds the likeliest token and the masses of blocks. The row stays in shared memory, if that
// holds it; else what comes next reads parts of it again.
#pragma once
#include "sampling/candidates.cuh"
#include "sampling/draw.cuh"
#include "sampling/list.cuh"

// What is looked for in the order of the row, one after the other.
enum Stage { TOP_N, TOP_K, TOP_P, DRAW };

template <int THREADS, bool RESIDENT>
struct Sampler {
  using RowOf = Row<THREADS, RESIDENT>;
  const SampleParams& p;
  Team<THREADS> team;
  RowOf row;

  Sampler(const SampleParams& params, SampleShared& s, int source)
      : p(params),
        team(s),
        row(p, reinterpret_cast<unsigned char*>(&s + 1), blockIdx.x / CLUSTER_CTAS, source,
            static_cast<int>(team.rank)) {}

  void run(bool exists) {
    int number = row.slice.row;
    long long position = p.positions ? p.positions[number] : 0;
    float temperature = of_row(p.temperature, number, p.all_temperature);
    lang::sampling::Temper temper = lang::sampling::temper(temperature);
    row.to_log2 = temper.to_log2;
    Blocks<THREADS, RowOf> blocks(team, row);
    float most = NOT_ALLOWED;
    bool possible = false, again;
#pragma unroll 1
    do {
      again = row.settled;
      if (exists) most = blocks.sum_weights(true);
      unsigned greatest = team.cluster_greatest(team.greatest(key_of(most)));
      if (!again) possible = row.settle(value_of(greatest));
    } while (row.settled && !again);
    Token drawn{-1, NOT_ALLOWED};
    Cut cut{NO_MASS, possible ? ALL_IDS : -1};
    u64 all = 0, kept = 0;
    if (possible) {
      all = blocks.sum();
      Filters filters(p, number, temper.greedy && !FROM_PROBS);
      filters.least = FROM_PROBS ? fminf(filters.min_p, 1.f) * row.greatest
                                 : lang::sampling::min_p_logit(filters.min_p, temperature, row.greatest);
      bool keeps = p.kept || (p.log_probs && p.of_kept);
      cut = keep(most, filters, keeps, temper.inverse, all);
      kept = all;
      if (keeps && filters.any()) kept = Walker<THREADS, RowOf>(team, row).sum({cut, false});
      if (p.ids && kept) drawn = draw(blocks, filters, cut, keeps, static_cast<u64>(position), all);
    } else if (p.top_ids) {
      write_top(0, 0.f, 0);
    }
    if (p.kept) write_kept(cut, kept);
    cluster_sync();  // counts have been read, and no CTA reads the memory of another
    if (team.rank) return;
    if (threadIdx.x == 0 && p.ids) {
      p.ids[number] = drawn.id;
      p.positions[number] = position + 1;
      if (p.log_probs)
        p.log_probs[number] =
            drawn.id < 0 ? NOT_ALLOWED : row.log_prob(drawn.value, temper.inverse, p.of_kept ? kept : all);
      if (p.counts && drawn.id >= 0) ++p.counts[static_cast<long long>(number) * p.vocab + drawn.id];
    }
  }

  struct Filters {
    int top_k;
    float top_p, min_p;
    float least = NO_MASS;  // the least value that min-p keeps
    bool greedy;
    Filters(const SampleParams& p, int row, bool of_likeliest)
        : top_k(of_row(p.top_k, row, p.all_top_k)),
          top_p(of_row(p.top_p, row, p.all_top_p)),
          min_p(of_row(p.min_p, row, p.all_min_p)),
          greedy(of_likeliest) {}
    bool any() const { return greedy || top_k > 0 || top_p < 1.f || min_p > 0.f; }
  };

  Token draw(Blocks<THREADS, RowOf>& blocks, const Filters& filters, Cut cut, bool knows, u64 position, u64 all) {
    if (filters.greedy) return {cut.id, cut.value};
    bool rejects = filters.top_k <= 0 && filters.any();
    Candidates<THREADS, RowOf> candidates{team, row, blocks};
    u64 target = rejects && !knows && filters.top_p < 1.f ? lang::sampling::share_target(all, filters.top_p) : 0;
    float least = rejects && filters.min_p > 0.f ? filters.least : NOT_ALLOWED;
    Cut from = rejects ? Cut{NO_MASS, ALL_IDS} : cut;
    return candidates.draw(rejects ? CANDIDATES : 1, from, filters.top_k > 0 ? 0 : all,
                           of_row(p.seeds, row.slice.row, p.all_seeds), position, rejects && knows ? &cut : nullptr,
                           target, least);
  }

  // What the filters keep, and the likeliest tokens. Without top-k, top-p is not looked for unless the row `keeps`. All
  // selections are one loop, so that their code is there once.
  Cut keep(float most, const Filters& filters, bool keeps, float inverse, u64 all) {
    Selector<THREADS, RowOf> selector(team, row);
    List<THREADS, RowOf> list(team, row);
    const Cut whole{NO_MASS, ALL_IDS};
    Cut cut = whole;
    bool of_top_k = !filters.greedy && filters.top_k > 0, done = false;
#pragma unroll 1
    for (int stage = TOP_N; stage < DRAW && !done; ++stage) {
      bool counts = stage != TOP_P;
      bool wanted = stage == TOP_N   ? p.top_ids != nullptr
                    : stage == TOP_K ? of_top_k
                                     : !filters.greedy && filters.top_p < 1.f && (of_top_k || keeps);
      if (!wanted) continue;
      int count = stage == TOP_N ? p.top_count : filters.top_k;
      unsigned listed = 0;
      if (counts) {
        float bound = selector.bound(most, count);
        if (count <= LIST && (bound != NO_MASS || p.vocab <= LIST)) listed = list.gather({bound, ALL_IDS});
      }
      if (!listed || listed > LIST) {
        bool of_kept = !counts && !p.joint && of_top_k;
        Target target{counts ? static_cast<u64>(count) : 0, filters.top_p};
        if (!counts && !of_kept) target.number = lang::sampling::share_target(all, filters.top_p);
        Cut found = end_of(selector, of_kept ? cut : whole, of_kept ? cut.value : NO_MASS, counts, target);
        if (stage != TOP_N) {
          cut = shorter(cut, found);
          continue;
        }
        listed = list.gather(found);
      }
      if (team.rank == 0) list.sort(listed);
      if (stage == TOP_N) {
        write_top(listed, inverse, all);
        cluster_sync();  // before the list is another's
      } else {
        count = min(static_cast<unsigned>(count), listed);
        if (team.rank == 0 && filters.top_p < 1.f) {
          if (team.warp == 0) {
            count = list.top_p(count, filters.top_p, p.joint, all);
            if (team.lane == 0) team.s.found = count;
          }
          __syncthreads();
          count = static_cast<int>(team.s.found);
        }
        cut = list.cut_of(count);
        done = true;
      }
    }
    if (filters.greedy) return {row.greatest, first_of_likeliest()};
    return filters.min_p > 0.f && (of_top_k || keeps) ? shorter(cut, {filters.least, ALL_IDS}) : cut;
  }

  // The end of the prefix whose weights reach `target`.
  Cut end_of(Selector<THREADS, RowOf>& selector, Cut within, float floor, bool counts, Target target) {
    u64 sum;
    Prefix prefix = selector.select(within, floor, counts, target, sum);
    if (!prefix.found) return {NO_MASS, ALL_IDS};
    Cut found{prefix.value, ALL_IDS};
    if (prefix.ties) {
      Walker<THREADS, RowOf> walker(team, row);
      Weights weights{found, true};
      walker.sum(weights);
      found.id = walker.find(weights, prefix.ties - 1).id;
    }
    return found;
  }

  // The id of the likeliest token.
  int first_of_likeliest() {
    unsigned id = ALL_IDS;
#pragma unroll 1
    for (int at = row.begin; at < row.end; at += 128) {
      if (!(row.block_most[at / BLOCK_TOKENS] >= row.greatest)) continue;
      int i = at + team.lane * 4;
      float x[4];
      row.read(i, x);
#pragma unroll
      for (int j = 0; j < 4; ++j)
        if (x[j] == row.greatest) id = min(id, static_cast<unsigned>(row.first + i + j));
    }
    return ~team.cluster_greatest(team.greatest(~id));
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

  // Writes the likeliest tokens, of the sorted list.
  void write_top(int count, float inverse, u64 sum) {
    if (team.rank) return;
    List<THREADS, RowOf> list(team, row);
    long long at = static_cast<long long>(row.slice.row) * p.top_count;
    for (int i = threadIdx.x; i < p.top_count; i += THREADS) {
      bool has = i < count && row.mass(list.values[i]);
      p.top_ids[at + i] = has ? list.ids[i] : -1;
      p.top_log_probs[at + i] = has ? row.log_prob(list.values[i], inverse, sum) : NOT_ALLOWED;
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

extern "C" __global__ void IN_CLUSTERS __launch_bounds__(SAMPLE_FEW, 1)
    attn_sample_few(const __grid_constant__ SampleParams p) {
  sample_row<SAMPLE_FEW, true>(p);
}
extern "C" __global__ void IN_CLUSTERS __launch_bounds__(SAMPLE_MANY, 2)
    attn_sample_many(const __grid_constant__ SampleParams p) {
  sample_row<SAMPLE_MANY, true>(p);
}
// For rows that fill the device, and for slices that shared memory does not hold.
extern "C" __global__ void IN_CLUSTERS __launch_bounds__(SAMPLE_LARGE, CLUSTER_SIZE > 1 ? 1 : 2)
    attn_sample_large(const __grid_constant__ SampleParams p) {
  sample_row<SAMPLE_LARGE, false>(p);
}
