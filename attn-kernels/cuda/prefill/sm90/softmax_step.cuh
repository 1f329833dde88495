// From a tile's logits to its weights, in a warpgroup: while products run, so that what waits for what counts, more than how many instructions there are.
//
// A running maximum only keeps weights from overflowing: any number that is not too far below the largest logit does. So once all rows of a warp have seen a key, nobody looks
// for the maximum of a tile; sums of weights say whether the one so far will do, and if not the logits are made again.
#pragma once
#include "prefill/sm90/recompute_scores.cuh"
#include "softmax/online_softmax.cuh"

// Rows of up to 128 elements: outputs leave registers for more.
constexpr bool SHORT_ROWS = HEAD_DIM <= 128 && VALUE_DIM <= 128;
// Whether that is done: not of longer rows, which have no place for the next piece's queries while they keep their own (it gains them nothing else); not where hooks are shown
// the maximum, nor where they made the logits what they are, which would have to be done again too; nor where what is added to logits is at hand but once.
constexpr bool MAX_MAY_BE_OLD = SHORT_ROWS && RESCALE_SLACK > 0.f && !Variant::PLAIN && !SCALE_LOGITS && !BIAS_FIRST && !Biases::ASKED_BEFORE;
// Then what a bias adds from column to column enters with the exponent, which is computed while products run; the other warpgroup's turn would wait for logits to grow. Three
// warpgroups have no registers for it.
constexpr bool SLOPE_IN_EXPONENT = MAX_MAY_BE_OLD && BIAS_AFFINE && WARPS == 8;
// A chunk: 16 keys, an operand of products with values.
constexpr int TILE_CHUNKS = TILE_KEYS / 16;
// The largest sum of a thread's weights of a row and tile that will do. Of bf16 and of sums in 32 bits 2^40 leaves 2^87 for values and for more tiles; f16 ends before 2^16.
constexpr float LARGEST_SUM = SAME<WeightElem, f16> ? 32768.f : 1.0995116e12f;

// What the logits of each row are relative to under a bias, of which they have not `grown` by what it adds from column to column.
struct BiasedShifts : RowShifts {
  float slope[ROWS_PER_THREAD] = {};

  template <class B>
  BiasedShifts(const RowStates& rows, float scale, const B& biases, bool grown) : RowShifts(rows, scale) {
    if constexpr (B::OF_ROWS)
#pragma unroll
      for (int r = 0; r < ROWS_PER_THREAD; ++r) {
        if (rows.max[r] != NO_LOGIT) of[r] = (rows.max[r] - biases.of(r)) * scale;
        if (!grown) slope[r] = biases.slope(r) * scale;
      }
  }
  float at(int r, int column) const { return SLOPE_IN_EXPONENT ? fmaf(-slope[r], column, of[r]) : of[r]; }
};

// A warpgroup's tile, as its logits are made and weighed.
struct WeighedTile {
  const LogitTile& tile;
  const LogitMask* mask;
  const Biases& biases;
  float scale;  // from what maxima are in to the exponent
  QueryTileRows queries;

  void finish_logits(Logits& s) const {
    transform_logits(s, tile, 0, TILE_CHUNKS);
    biases.add(s);
    if (mask) mask->apply(s, tile);
  }
  // Weights in place of logits, whether they have `grown` or not, and their sums; `each(chunk)` is called once a chunk is weighed.
  template <class Each>
  void weigh(Logits& s, RowStates& rows, bool grown, Each each) const {
    BiasedShifts shift(rows, scale, biases, grown);
#pragma unroll
    for (int n = 0; n < TILE_CHUNKS; ++n) {
      weigh_logits(s, rows, tile, shift, scale, n);
      each(n);
    }
  }
  // The same of logits that are made again, by one warp, in few instructions.
  void weigh_again(Logits& s, RowStates& rows) const {
    BiasedShifts shift(rows, scale, biases, true);
#pragma unroll 1
    for (int n = 0; n < TILE_CHUNKS; ++n) {
      weigh_logits(s, rows, tile, shift, scale, 0);
      move_columns<2>(s);
    }
  }
};

// What is known of the maxima of a warp's rows.
struct MaxState {
  bool fixed;          // at 0: no logit is large
  bool unseen = true;  // a row has seen no key yet, so that its first one is to be found
};

// Logits, which are there, become weights in place. Before that sums so far may have to be multiplied by `factor`; `each(chunk, grown, sums)` is called once a chunk is
// weighed, and says so, and what they sum to so far. Gives whether weights were made again after that, and sums are to be multiplied again: by a warp alone, so that nothing
// in there may be an instruction of the whole warpgroup, as a wait for its products is.
template <bool FIRST, class Each>
inline bool weigh_tile(Logits& s, RowStates& rows, float (&factor)[ROWS_PER_THREAD], MaxState& max, const WeighedTile& t, Each each) {
  auto set_factor = [&](int r, float x) { factor[r] = x; };
  t.finish_logits(s);
  bool search = !max.fixed && (FIRST || !MAX_MAY_BE_OLD || max.unseen), grown = false;
  if (search || !SLOPE_IN_EXPONENT) t.biases.grow(s);
  if constexpr (!Variant::PLAIN)
    if (search) {
      grown = follow_maximum(rows, s, t.scale, &t.biases, set_factor);
      if constexpr (MAX_MAY_BE_OLD) max.unseen = __any_sync(ALL_LANES, rows.max[0] == NO_LOGIT || rows.max[1] == NO_LOGIT);
    }
  RowStates of_tile = rows.without_sums();
  t.weigh(s, of_tile, search, [&](int chunk) { each(chunk, grown, of_tile.sum); });
  bool again = false;
  if constexpr (MAX_MAY_BE_OLD && !FIRST) {
    again = !__all_sync(ALL_LANES, of_tile.sum[0] <= LARGEST_SUM && of_tile.sum[1] <= LARGEST_SUM);  // nor will NaN do
    if (again) {
      factor[0] = factor[1] = 1.f;
      multiply_again(s, t.queries, t.tile);
      t.finish_logits(s);
      t.biases.grow(s);
      follow_maximum(rows, s, t.scale, &t.biases, set_factor);
      of_tile = rows.without_sums();
      t.weigh_again(s, of_tile);
    }
  }
  rows.sum[0] += of_tile.sum[0];
  rows.sum[1] += of_tile.sum[1];
  return again;
}
