// Blocks of tokens, by which a row is summed and drawn from. Weights are relative to the likeliest token of a block, so
// that one read of the row finds the likeliest token and the sums, as online softmax does. The order of sums is that of
// attn-core/src/sampling/blocks.rs.
#pragma once
#include "sampling/row.cuh"

template <int THREADS, class Row>
struct Blocks {
  Team<THREADS>& team;
  Row& row;
  Cut cut{NO_MASS, ALL_IDS};
  u64 before = 0, slice = 0;  // masses of the slices before the CTA's own, and of that

  Blocks(Team<THREADS>& t, Row& of) : team(t), row(of) {}

  // A weight in a block with this greatest value.
  struct TokenWeight {
    float most, least, to_log2;
    TokenWeight(const Row& row, float greatest) : most(greatest), least(0.f), to_log2(row.to_log2) {
      if constexpr (FROM_PROBS) least = lang::sampling::least_prob(most);
    }
    float operator()(float x) const {
      return FROM_PROBS ? lang::sampling::weight_of_prob(x, most, least)
                        : lang::sampling::weight_of_logit(x - most, to_log2);
    }
  };

  // Sums weights of what `cut` has, block by block. The first pass reads the row from memory, keeps it in shared memory
  // if that holds it, and returns the greatest value of the thread.
  float sum_weights(bool loads) {
    float most = NOT_ALLOWED;
    bool whole = cut.value == NO_MASS && cut.id == ALL_IDS;
#pragma unroll 1
    for (int at = row.begin; at < row.end; at += BLOCK_TOKENS) {
      int block = at / BLOCK_TOKENS;
      float x[STEPS][4], of_block = NOT_ALLOWED;
      if (loads) {
        row.load_block(at, x);
        float mine = NOT_ALLOWED;
        each_of_block([&](int step, int j) { mine = fmaxf(mine, x[step][j]); });
        most = fmaxf(most, mine);
        of_block = max_of_neighbours<32>(mine);
        if (team.lane == 0) row.block_most[block] = of_block;
      } else {
        of_block = row.block_most[block];
        if (!(of_block >= cut.value)) {
          if (team.lane == 0) row.masses[block] = 0;
          continue;
        }
        row.read_block(at, x);
      }
      TokenWeight weight(row, of_block);
      float sums[4] = {};
      each_of_block([&](int step, int j) {
        float w = weight(x[step][j]);
        if (!whole && !cut.has(x[step][j], id_of(at, step, j))) w = 0.f;
        sums[j] += w;
      });
      float sum = sum_of_neighbours<32>((sums[0] + sums[1]) + (sums[2] + sums[3]));
      if (team.lane == 0) row.masses[block] = __float_as_uint(sum);
    }
    return most;
  }

  // Makes masses of weights, for which the greatest value of the row is known. Returns their sum over the row.
  u64 sum() {
    __syncthreads();
    u64 mine[1] = {0};
    for (int block = threadIdx.x; block < row.blocks(); block += THREADS) {
      float weight = __uint_as_float(static_cast<unsigned>(row.masses[block])), most = row.block_most[block];
      u64 mass = FROM_PROBS ? lang::sampling::mass_of_probs_block(weight, most, row.greatest)
                            : lang::sampling::mass_of_logits_block(weight, most - row.greatest, row.to_log2);
      row.masses[block] = mass;
      mine[0] += mass;
    }
    team.sums(mine);
    slice = mine[0];
    return team.sum_slices(slice, before);
  }
  u64 sum_of(Cut of) {
    cut = of;
    sum_weights(false);
    return sum();
  }

  // Draws with a random number of the warp: the token, its value, and the masses of its block's tokens that are before
  // it in the order of the row. Tells them to all CTAs; a barrier of the cluster must follow.
  void draw(int candidate, u64 random, u64 total) {
    u64 number = lang::sampling::mulhi(random, total);
    if (number < before || number - before >= slice) return;
    int at = find_block(number - before) * BLOCK_TOKENS;
    float x[STEPS][4], w[STEPS][4];
    row.read_block(at, x);
    TokenWeight weight(row, row.block_most[at / BLOCK_TOKENS]);
    float sums[4] = {};
    bool any = false;
    each_of_block([&](int step, int j) {
      w[step][j] = cut.has(x[step][j], id_of(at, step, j)) ? weight(x[step][j]) : 0.f;
      any = any || w[step][j] > 0.f;
      sums[j] += w[step][j];
    });
    float through = sum_through((sums[0] + sums[1]) + (sums[2] + sums[3]), team.lane);
    float share = static_cast<float>(static_cast<unsigned>(random) & 0xffffffu) * 5.9604645e-8f;
    float target = __shfl_sync(0xffffffffu, through, 31) * share;
    // rounding may leave no lane, or no token of it: then it is the last with a weight
    unsigned above = __ballot_sync(0xffffffffu, through > target), with = __ballot_sync(0xffffffffu, any);
    int owner = above ? __ffs(above) - 1 : 31 - __clz(with);
    float start = __shfl_up_sync(0xffffffffu, through, 1);
    if (team.lane == 0) start = 0.f;
    int id = 0;
    float value = 0.f;
    bool done = false;
    each_of_block([&](int step, int j) {
      if (done || !(w[step][j] > 0.f)) return;
      id = id_of(at, step, j), value = x[step][j];
      start += w[step][j];
      done = start > target;
    });
    id = __shfl_sync(0xffffffffu, id, owner), value = __shfl_sync(0xffffffffu, value, owner);
    u64 masses = 0;
    Cut first{value, id - 1};
    each_of_block([&](int step, int j) {
      if (first.has(x[step][j], id_of(at, step, j))) masses += row.mass(x[step][j]);
    });
    masses = team.warp_sum(masses);
    if (team.lane < CLUSTER_CTAS) {
      *of_cta(&team.s.candidates[candidate], team.lane) = Token{id, value}.packed();
      *of_cta(&team.s.before[candidate], team.lane) = masses;
    }
  }

  int id_of(int at, int step, int j) const { return row.first + at + step * 128 + team.lane * 4 + j; }

 private:
  // The block of the slice up to which masses exceed `number`.
  int find_block(u64 number) const {
    int each = (row.blocks() + 31) / 32, from = team.lane * each;
    u64 mine = 0;
#pragma unroll 1
    for (int i = 0; i < each; ++i) mine += from + i < row.blocks() ? row.masses[from + i] : 0;
    u64 start = sum_through(mine, team.lane) - mine;
    bool has = start <= number && number - start < mine;
    int block = from;
    if (has) {
#pragma unroll 1
      while (number - start >= row.masses[block]) start += row.masses[block++];
    }
    return __shfl_sync(0xffffffffu, block, __ffs(__ballot_sync(0xffffffffu, has)) - 1);
  }
};
