// The loop over a thread's logits for long hooks, in place of the unrolled one of score_tile.cuh: there are copies of a
// hook for one block of 8 columns instead of all of them. Unrolled, a compiler takes minutes for a long hook.
#pragma once
#define for_each_score for_each_score_unrolled
#include "softmax/score_tile.cuh"
#undef for_each_score

// As for_each_score there. Registers have no run-time index, so each iteration works on the first block, and then
// rotates the blocks by one.
template <class F>
inline void for_each_score(ScoreFragment& s, const ScoreTile& tile, int first, int end, F f) {
#pragma unroll 1
  for (int n = first; n < end; ++n) {
#pragma unroll
    for (int r = 0; r < ROWS_PER_THREAD; ++r) {
      LogitIndex at;
      static_cast<RowIndex&>(at) = tile.q_tile.at(tile.p, fragment_row(r));
      bool real_row = tile.q_tile.has_row(fragment_row(r));
      int first_token = first_key_token(tile.p, tile.q_tile.request, at);
#pragma unroll
      for (int e = 0; e < 2; ++e) {
        set_key(at, tile, first_token, fragment_column() + n * 8 + e);
        f(s[r / 2][first][r % 2 * 2 + e], at, real_row, r);
      }
    }
#pragma unroll
    for (int m = 0; m < ROW_BLOCKS; ++m)
#pragma unroll
      for (int e = 0; e < 4; ++e) {
        float of_first = s[m][first][e];
#pragma unroll
        for (int k = first; k + 1 < end; ++k) s[m][k][e] = s[m][k + 1][e];
        s[m][end - 1][e] = of_first;
      }
  }
}
