// Draws by rejection: tokens of the whole row are drawn, a few at a time, until top-p and min-p keep one. So the end of
// what top-p keeps need not be found. Rejected tokens end the part of the row that is drawn from next.
#pragma once
#include "sampling/blocks.cuh"

template <int THREADS, class Row>
struct Candidates {
  Team<THREADS>& team;
  Row& row;
  Blocks<THREADS, Row>& blocks;

  Token drawn(int i) const { return token_of(team.s.candidates[i]); }

  // Draws a token of what `from` has, `count` tokens at a time, until one is kept: by a cut, where it is known, else by
  // a target of top-p and the least value of min-p. `total`: the sum of all masses; 0: those of `from` must be summed.
  Token draw(int count, Cut from, u64 total, u64 seed, u64 position, const Cut* cut, u64 target, float least) {
#pragma unroll 1
    for (unsigned first = 0;; first += count) {
      if (!total) total = blocks.sum_of(from);
      if (!total) return {-1, NOT_ALLOWED};
#pragma unroll 1
      for (int i = team.warp; i < count; i += team.WARPS)
        blocks.draw(i, lang::random::bits64(seed, position, (first + i) * DRAWS_OF_CANDIDATE), total);
      cluster_sync();
      unsigned kept = 0;
      from = {NO_MASS, -1};  // what is before all of them
#pragma unroll 1
      for (int i = 0; i < count; ++i) {
        Token token = drawn(i);
        bool has = cut ? cut->has(token.value, token.id) : token.value >= least;
        kept |= static_cast<unsigned>(has) << i;
        from = shorter(from, {token.value, token.id - 1});
      }
      int index = kept && target ? first_of(kept, target) : __ffs(kept) - 1;
      if (index >= 0) return drawn(index);
      total = 0;
    }
  }

 private:
  // The first of these candidates for which the masses before it are below `target`; -1: none.
  int first_of(unsigned candidates, u64 target) {
#pragma unroll 1
    while (candidates) {
      int index[CHECKED];
      unsigned left = candidates;
#pragma unroll
      for (int i = 0; i < CHECKED; ++i) {
        index[i] = __ffs(left) - 1;
        left &= left - 1;
      }
      unsigned passed = check(index, target);
#pragma unroll
      for (int i = 0; i < CHECKED; ++i)
        if (passed >> i & 1) return index[i];
      // masses grow with the rank: what is behind one of these does not pass either
      Cut before{NO_MASS, -1};
#pragma unroll
      for (int i = 0; i < CHECKED; ++i) {
        if (index[i] < 0) continue;
        Token token = drawn(index[i]);
        before = shorter(before, {token.value, token.id - 1});
      }
      candidates = left;
#pragma unroll 1
      for (int i = 0; i < CANDIDATES; ++i) {
        Token token = drawn(i);
        if (!before.has(token.value, token.id)) candidates &= ~(1u << i);
      }
    }
    return -1;
  }

  // Reads the row again for the masses before each of these candidates. A bit for each that is below `target`.
  unsigned check(const int (&index)[CHECKED], u64 target) {
    // Blocks before a token's have equal values before it, blocks behind it have not; its own was counted by the draw.
    float value[CHECKED], above[CHECKED], least = lang::F32_INFINITY;
    int block_of[CHECKED];
    u64 before[CHECKED] = {};
#pragma unroll
    for (int i = 0; i < CHECKED; ++i) {
      Token token = drawn(max(index[i], 0));
      value[i] = index[i] >= 0 ? token.value : lang::F32_INFINITY;
      above[i] = index[i] >= 0 ? value_of(key_of(token.value) + 1) : lang::F32_INFINITY;
      block_of[i] = token.id / BLOCK_TOKENS - row.first / BLOCK_TOKENS;
      least = fminf(least, value[i]);
    }
#pragma unroll 1
    for (int at = row.begin; at < row.end; at += BLOCK_TOKENS) {
      int block = at / BLOCK_TOKENS;
      if (!(row.block_most[block] >= least)) continue;
      float reaches[CHECKED];
#pragma unroll
      for (int i = 0; i < CHECKED; ++i) {
        reaches[i] = block < block_of[i] ? value[i] : above[i];
        if (block == block_of[i]) reaches[i] = lang::F32_INFINITY;
      }
      float x[STEPS][4];
      row.read_block(at, x);
      each_of_block([&](int step, int j) {
        u64 mass = row.mass(x[step][j]);
#pragma unroll
        for (int i = 0; i < CHECKED; ++i)
          if (x[step][j] >= reaches[i]) before[i] += mass;
      });
    }
    team.sums(before);
    const u64* all = team.tell(before);
    unsigned below = 0;
#pragma unroll
    for (int i = 0; i < CHECKED; ++i) {
      u64 sum = team.s.before[max(index[i], 0)];
#pragma unroll
      for (int cta = 0; cta < CLUSTER_CTAS; ++cta) sum += all[i * CLUSTER_CTAS + cta];
      below |= static_cast<unsigned>(index[i] >= 0 && sum < target) << i;
    }
    return below;
  }
};
