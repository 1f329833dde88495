// A list of the likeliest tokens, in the first CTA of a cluster: top-k of few tokens, and what top-p keeps of them.
#pragma once
#include "sampling/select.cuh"

template <int THREADS, class Row>
struct List {
  Team<THREADS>& team;
  const Row& row;
  float* values;
  int* ids;

  List(Team<THREADS>& t, const Row& of)
      : team(t), row(of), values(reinterpret_cast<float*>(t.s.low)), ids(reinterpret_cast<int*>(t.s.high)) {}

  // Lists what `cut` has, as far as there is room. Returns how many tokens that are, in every thread.
  unsigned gather(Cut cut) {
    SampleShared& s = team.s;
    if (threadIdx.x == 0) s.list_count = 0;
    cluster_sync();
    unsigned* count = of_cta(&s.list_count, 0);
    float* to_values = of_cta(values, 0);
    int* to_ids = of_cta(ids, 0);
#pragma unroll 1
    for (int at = row.begin; at < row.end; at += BLOCK_TOKENS) {
      if (!(row.block_most[at / BLOCK_TOKENS] >= cut.value)) continue;
      float x[STEPS][4];
      row.read_block(at, x);
      int first = row.first + at + team.lane * 4;
      unsigned mine = 0;
#pragma unroll
      for (int i = 0; i < 4 * STEPS; ++i) {
        bool has = x[i / 4][i % 4] > NO_MASS && cut.has(x[i / 4][i % 4], first + i / 4 * 128 + i % 4);
        mine |= static_cast<unsigned>(has) << i;
      }
      if (!mine) continue;
      unsigned index = atomicAdd(count, static_cast<unsigned>(__popc(mine)));
#pragma unroll
      for (int i = 0; i < 4 * STEPS; ++i) {
        if (!(mine >> i & 1)) continue;
        if (index < LIST) to_values[index] = x[i / 4][i % 4], to_ids[index] = first + i / 4 * 128 + i % 4;
        ++index;
      }
    }
    cluster_sync();
    return *count;
  }

  // Sorts the list of `count` tokens, in the first CTA.
  void sort(int count) {
    constexpr int EACH = (LIST + THREADS - 1) / THREADS;
    float value[EACH];
    int id[EACH], rank[EACH];
#pragma unroll
    for (int i = 0; i < EACH; ++i) {
      int at = i * THREADS + threadIdx.x;
      if (at >= count) break;
      float mine = values[at];
      int my_id = ids[at], before = 0;
#pragma unroll 4
      for (int j = 0; j < count; ++j) before += values[j] > mine || (values[j] == mine && ids[j] < my_id);
      value[i] = mine, id[i] = my_id, rank[i] = before;
    }
    __syncthreads();
#pragma unroll
    for (int i = 0; i < EACH; ++i) {
      if (i * THREADS + static_cast<int>(threadIdx.x) >= count) break;
      values[rank[i]] = value[i], ids[rank[i]] = id[i];
    }
    __syncthreads();
  }

  // How many of the first `count` tokens of the sorted list top-p keeps; all masses of the row sum to `all`. For one
  // warp of the first CTA.
  int top_p(int count, float share, bool joint, u64 all) const {
    u64 of = joint ? all : 0;
    if (!joint) {
      for (int i = team.lane; i < count; i += 32) of += row.mass(values[i]);
      of = team.warp_sum(of);
    }
    u64 target = lang::sampling::share_target(of, share), before = 0;
#pragma unroll 1
    for (int at = 0; at < count; at += 32) {
      int i = at + team.lane;
      u64 mass = i < count ? row.mass(values[i]) : 0;
      u64 through = sum_through(mass, team.lane);
      unsigned past = __ballot_sync(0xffffffffu, i < count && before + through - mass >= target);
      if (past) return at + __ffs(past) - 1;
      before += __shfl_sync(0xffffffffu, through, 31);
    }
    return count;
  }

  // The cut of the first `count` tokens of the list, in every thread. Only the `count` of the first CTA matters.
  Cut cut_of(int count) {
    Token last = token_of(team.tell(team.rank == 0 ? Token{ids[count - 1], values[count - 1]}.packed() : 0)[0]);
    return {last.value, last.id};
  }
};
