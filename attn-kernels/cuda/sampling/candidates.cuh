// Draws by rejection: tokens of the whole row are drawn, a few at a time, until top-p and min-p keep one. So the end of
// what top-p keeps need not be found. Rejected tokens end the part of the row that is drawn from next.
#pragma once
#include "sampling/blocks.cuh"

struct Token {
  int id;
  float value;
};
inline Token token_of(u64 packed) {
  return {static_cast<int>(packed), __uint_as_float(static_cast<unsigned>(packed >> 32))};
}

template <int THREADS, class Row>
struct Candidates {
  Team<THREADS>& team;
  Row& row;
  Blocks<THREADS, Row>& blocks;

  // Draws `count` tokens with the random numbers from `first` on. All masses sum to `total`.
  void draw(int count, u64 seed, u64 position, unsigned first, u64 total, Token (&tokens)[CANDIDATES]) {
#pragma unroll 1
    for (int i = team.warp; i < count; i += team.WARPS)
      blocks.draw(i, lang::random::bits64(seed, position, (first + i) * DRAWS_OF_CANDIDATE), total);
    cluster_sync();
#pragma unroll
    for (int i = 0; i < CANDIDATES; ++i) tokens[i] = token_of(team.s.candidates[min(i, count - 1)]);
  }

  // Draws until a token is kept: by a cut, where it is known, else by a target of top-p and the least value of min-p.
  Token accepted(u64 seed, u64 position, u64 total, const Cut* cut, bool top_p, u64 target, float least) {
    Token tokens[CANDIDATES];
#pragma unroll 1
    for (unsigned first = 0;; first += CANDIDATES) {
      draw(CANDIDATES, seed, position, first, total, tokens);
      bool kept[CANDIDATES], any = false;
#pragma unroll
      for (int i = 0; i < CANDIDATES; ++i) {
        kept[i] = cut ? cut->has(tokens[i].value, tokens[i].id) : tokens[i].value >= least;
        any = any || kept[i];
      }
      if (!cut && top_p && any) check(tokens, kept, target);
      Cut next{NO_MASS, -1};
#pragma unroll
      for (int i = 0; i < CANDIDATES; ++i) {
        if (kept[i]) return tokens[i];
        next = shorter(next, {tokens[i].value, tokens[i].id - 1});
      }
      total = blocks.sum_of(next);
      if (!total) return {-1, NOT_ALLOWED};  // never: the likeliest token is kept
    }
  }

 private:
  // Clears the marks of tokens for which the masses before them reach `target`.
  void check(const Token (&tokens)[CANDIDATES], bool (&kept)[CANDIDATES], u64 target) {
    // Blocks before a token's have equal values before it, blocks behind it have not; its own was counted by the draw.
    float value[CANDIDATES], above[CANDIDATES], least = lang::F32_INFINITY;
    int block_of[CANDIDATES];
    u64 before[CANDIDATES] = {};
#pragma unroll
    for (int i = 0; i < CANDIDATES; ++i) {
      value[i] = kept[i] ? tokens[i].value : lang::F32_INFINITY;
      above[i] = kept[i] ? value_of(key_of(value[i]) + 1) : lang::F32_INFINITY;
      block_of[i] = tokens[i].id / BLOCK_TOKENS - row.first / BLOCK_TOKENS;
      least = fminf(least, value[i]);
    }
#pragma unroll 1
    for (int at = row.begin; at < row.end; at += BLOCK_TOKENS) {
      int block = at / BLOCK_TOKENS;
      if (!(row.block_most[block] >= least)) continue;
      float reaches[CANDIDATES];
#pragma unroll
      for (int i = 0; i < CANDIDATES; ++i) {
        reaches[i] = block < block_of[i] ? value[i] : above[i];
        if (block == block_of[i]) reaches[i] = lang::F32_INFINITY;
      }
      float x[STEPS][4];
      blocks.read(at, x);
#pragma unroll
      for (int step = 0; step < STEPS; ++step) {
#pragma unroll
        for (int j = 0; j < 4; ++j) {
          u64 mass = row.mass(x[step][j]);
#pragma unroll
          for (int i = 0; i < CANDIDATES; ++i)
            if (x[step][j] >= reaches[i]) before[i] += mass;
        }
      }
    }
    team.sums(before);
    const u64* all = team.tell(before);
#pragma unroll
    for (int i = 0; i < CANDIDATES; ++i) {
      u64 sum = team.s.before[i];
#pragma unroll
      for (int cta = 0; cta < CLUSTER_CTAS; ++cta) sum += all[i * CLUSTER_CTAS + cta];
      kept[i] = kept[i] && sum < target;
    }
  }
};
