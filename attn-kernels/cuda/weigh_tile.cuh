// From a tile's logits to its weights, in a warpgroup: while products run, so that what waits for what counts, more than how many instructions there are.
#pragma once
#include "softmax.cuh"

// A chunk: 16 keys, an operand of products with values.
constexpr int TILE_CHUNKS = TILE_KEYS / 16;
// Rows of up to 128 elements: outputs leave registers for more.
constexpr bool SHORT_ROWS = HEAD_DIM <= 128 && VALUE_DIM <= 128;
// So many chunks are weighed relative to the maximum so far, beside the search for the tile's, and again if that has grown, which it seldom has. Where hooks are shown the
// maximum, or a bound may fix it, none are.
constexpr int CHUNKS_AHEAD = Variant::PLAIN || MAX_SCALED || MAX_MAY_BE_FIXED ? 0 : SHORT_ROWS && WARPS <= 8 ? 2 : 1;

// Logits, which are there, become weights in place. `factor` is what sums so far are to be multiplied by, if they are: `each(chunk, grown)` is called once a chunk
// is weighed, and says so.
template <int AHEAD, class Each>
inline void weigh_tile(Logits& s, RowStates& rows, float (&factor)[ROWS_PER_THREAD], const LogitTile& tile, const LogitMask* mask, const Biases& biases, float scale,
                       bool max_fixed, Each each) {
  transform_logits(s, tile, 0, TILE_CHUNKS);
  biases.grow(s);
  if (mask) mask->apply(s, tile);

  RowShifts shift(rows, scale, biases);
  RowStates rows_ahead = rows;
  Logits ahead;
#pragma unroll
  for (int n = 0; n < AHEAD; ++n) {
    copy_chunk(ahead, s, n);
    weigh_logits(ahead, rows_ahead, tile, shift, scale, n);
  }
  bool grown = false;
  if constexpr (!Variant::PLAIN)
    if (!max_fixed) grown = follow_maximum(rows, s, scale, &biases, [&](int r, float x) { factor[r] = x; });
  if (grown) {
    shift = RowShifts(rows, scale, biases);
#pragma unroll
    for (int n = 0; n < AHEAD; ++n) weigh_logits(s, rows, tile, shift, scale, n);
  } else if (AHEAD > 0) {
    rows = rows_ahead;
#pragma unroll
    for (int n = 0; n < AHEAD; ++n) copy_chunk(s, ahead, n);
  }
#pragma unroll
  for (int n = 0; n < TILE_CHUNKS; ++n) {
    if (n >= AHEAD) weigh_logits(s, rows, tile, shift, scale, n);
    each(n, grown);
  }
}
