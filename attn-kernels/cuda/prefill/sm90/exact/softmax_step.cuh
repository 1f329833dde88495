// Softmax step of a consumer warpgroup: S of a tile becomes P while gemm_pv of the previous tile runs. What waits for
// what matters more than the number of instructions.
//
// Lazy max: the row max only prevents overflow. Once all rows of a warp have seen a key, P is exponentiated against the
// stale max. If a partial row sum exceeds MAX_PARTIAL_SUM, the warp recomputes S from Q in shared memory and K in
// global memory.
#pragma once
#include "prefill/sm90/exact/q_rows.cuh"
#include "prefill/sm90/exact/recompute_scores.cuh"
#include "softmax/online_softmax.cuh"

// Rows of up to 128 elements; with longer ones O leaves too few registers.
constexpr bool SHORT_ROWS = HEAD_DIM_QK <= 128 && HEAD_DIM_VO <= 128;
// Whether the max is lazy. Beside short values keys may have 192 elements. Not for longer rows: Q is then kept until
// the end of an item, and their single Q stage would delay the next Q (nothing else would be gained). Not where hooks
// are shown the max; not where hooks transform S, since that would have to be repeated; and not where a bias can be
// added only once.
constexpr bool LAZY_MAX = HEAD_DIM_QK <= 192 && HEAD_DIM_VO <= 128 && RESCALE_THRESHOLD > 0.f && !Variant::PLAIN &&
                          !SCALE_LOGITS && !BIAS_IN_ACCUMULATOR && !Bias::PREFETCHED;
// With a lazy max, the slope of an affine bias is added in the exponent, while the GEMMs run, instead of to S, which
// would delay the other warpgroup. Three warpgroups have no registers for it.
constexpr bool SLOPE_IN_EXPONENT = LAZY_MAX && BIAS_AFFINE && WARPS == 8;
// A chunk is 16 keys: one A operand of gemm_pv.
constexpr int TILE_CHUNKS = TILE_KEYS / 16;
// The largest partial row sum (of a thread, a row and a tile) that a stale max may give. For bf16 with f32 sums 2^40
// leaves a range of 2^87 for V and further tiles; f16 overflows at 2^16.
constexpr float MAX_PARTIAL_SUM = SAME<PvElem, f16> ? 32768.f : 1.0995116e12f;

// The subtrahend of the exponent with a bias: includes its row term, and its slope if S lacks it (not `grown`).
struct BiasedScaledRowMax : ScaledRowMax {
  float slope[ROWS_PER_THREAD] = {};

  template <class B>
  BiasedScaledRowMax(const SoftmaxState& softmax, float scale, const B& bias, bool grown)
      : ScaledRowMax(softmax, scale) {
    if constexpr (B::HAS_ROW_TERM)
#pragma unroll
      for (int r = 0; r < ROWS_PER_THREAD; ++r) {
        if (softmax.row_max[r] != NEG_INF) value[r] = (softmax.row_max[r] - bias.row_term(r)) * scale;
        if (!grown) slope[r] = bias.slope(r) * scale;
      }
  }
  float at(int r, int column) const { return SLOPE_IN_EXPONENT ? fmaf(-slope[r], column, value[r]) : value[r]; }
};

// A warpgroup's tile, and what the softmax step needs to know about it.
struct SoftmaxTile {
  const ScoreTile& tile;
  const ScoreMask& mask;
  bool masked;
  const Bias& bias;
  const WarpgroupQ& q;

  void finish_scores(ScoreFragment& s) const {
    transform_scores(s, tile, 0, TILE_CHUNKS);
    bias.add(s);
    if (masked) mask.apply(s, tile);
  }
  // S becomes P, and row_sum accumulates it; `grown`: whether S includes the slopes. Calls `each(chunk)` after each
  // chunk.
  template <class Each>
  void exponentiate(ScoreFragment& s, SoftmaxState& softmax, bool grown, Each each) const {
    BiasedScaledRowMax scaled_max(softmax, q.scale, bias, grown);
#pragma unroll
    for (int n = 0; n < TILE_CHUNKS; ++n) {
      scores_to_probs(s, softmax, tile, scaled_max, q.scale, n);
      each(n);
    }
  }
  // The same for recomputed S, by a single warp in a rolled loop.
  void exponentiate_recomputed(ScoreFragment& s, SoftmaxState& softmax) const {
    BiasedScaledRowMax scaled_max(softmax, q.scale, bias, true);
#pragma unroll 1
    for (int n = 0; n < TILE_CHUNKS; ++n) {
      scores_to_probs(s, softmax, tile, scaled_max, q.scale, 0);
      rotate_columns<2>(s);
    }
  }
};

// What is known about row_max of a warp's rows.
struct RowMaxState {
  bool is_static;      // static max: 0 for all rows, as logits are bounded
  bool unseen = true;  // some row has seen no key yet, so that the next tile must search for the max

  RowMaxState(const Variant& variant, const QTile& q_tile)
      : is_static(use_static_max(variant, q_tile.request.kv_len)) {}
};

static_assert(!SKIP_SOFTMAX || !Variant::HAS_WEIGHT, "tiles are left out by what exp makes of a logit");

// Skip-softmax (BLASST, arXiv 2512.12087): whether the tile is left out, because no row of the warpgroup has a key in
// it within `threshold` (in the exponent) of the row's max so far. Rows that do not exist have no say, and masked
// elements are -inf. gemm_pv is of the whole warpgroup, whose warps wait for each other here.
inline bool skips_tile(const ScoreFragment& s, const SoftmaxState& softmax, const SoftmaxTile& t, float threshold) {
  bool skips = true;
#pragma unroll
  for (int r = 0; r < ROWS_PER_THREAD; ++r) {
    float x = lane_max(s, r, NEG_INF);
    if constexpr (Bias::HAS_ROW_TERM) x += t.bias.row_term(r);
    // both are -inf for a row that has seen no key, and sees none here
    bool below = fmaf(x, t.q.scale, threshold) <= softmax.row_max[r] * t.q.scale;
    skips &= below || !t.tile.q_tile.has_row(fragment_row(r));
  }
  // the vote makes the value warp-uniform for ptxas, which serialises WGMMAs in divergent paths
  return __any_sync(ALL_LANES, named_barrier_all(WARPGROUP_BARRIER + t.q.warpgroup, 128, skips));
}

// What becomes of a tile.
enum class StepResult { PROBS, RECOMPUTED, SKIPPED };

// Softmax step: S, which has arrived, becomes P in place. Calls `each(chunk, grown, sums)` after each chunk; if
// `grown`, the caller must rescale O by `factor` first. If P was recomputed after that, O must be rescaled once more
// and P packed again. A single warp can take that path, so that no warpgroup-wide instruction (such as warpgroup_wait)
// may be in it. A tile that is skipped changes nothing but S.
template <bool FIRST, class Each>
inline StepResult softmax_step(ScoreFragment& s, SoftmaxState& softmax, float (&factor)[ROWS_PER_THREAD],
                               RowMaxState& max_state, const SoftmaxTile& t, Each each, float skip_threshold = 0.f) {
  auto set_factor = [&](int r, float x) { factor[r] = x; };
  t.finish_scores(s);
  bool search = !max_state.is_static && (FIRST || !LAZY_MAX || max_state.unseen), grown = false;
  if (search || !SLOPE_IN_EXPONENT) t.bias.add_slopes(s);
  if constexpr (SKIP_SOFTMAX && !FIRST)
    if (skips_tile(s, softmax, t, skip_threshold)) return StepResult::SKIPPED;
  if constexpr (!Variant::PLAIN)
    if (search) {
      grown = update_row_max(softmax, s, t.q.scale, &t.bias, set_factor);
      if constexpr (LAZY_MAX)
        max_state.unseen = __any_sync(ALL_LANES, softmax.row_max[0] == NEG_INF || softmax.row_max[1] == NEG_INF);
    }
  SoftmaxState of_tile = softmax.with_zero_sums();
  t.exponentiate(s, of_tile, search, [&](int chunk) { each(chunk, grown, of_tile.row_sum); });
  bool recomputed = false;
  if constexpr (LAZY_MAX && !FIRST) {
    recomputed = !__all_sync(ALL_LANES, of_tile.row_sum[0] <= MAX_PARTIAL_SUM &&
                                            of_tile.row_sum[1] <= MAX_PARTIAL_SUM);  // also true for NaN
    if (recomputed) {
      factor[0] = factor[1] = 1.f;
      recompute_scores(s, t.q.smem, t.tile);
      t.finish_scores(s);
      t.bias.add_slopes(s);
      update_row_max(softmax, s, t.q.scale, &t.bias, set_factor);
      of_tile = softmax.with_zero_sums();
      t.exponentiate_recomputed(s, of_tile);
    }
  }
  softmax.row_sum[0] += of_tile.row_sum[0];
  softmax.row_sum[1] += of_tile.row_sum[1];
  return recomputed ? StepResult::RECOMPUTED : StepResult::PROBS;
}
