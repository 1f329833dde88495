#line _ "variant"
namespace lang {

/// Interleaved positions: under `remap`, keys are those of one rank of context parallelism.
///
/// Runs of `interleave` tokens go to ranks 0, 1, .., `ranks - 1`, and round again, as in decode context parallelism
/// (DCP of vLLM and SGLang, for caches like that of MLA, arXiv 2405.04434). Under `remap(interleaved_positions(..),
/// inner)` the hooks of `inner` see `(kv_pos / interleave * ranks + rank) * interleave + kv_pos % interleave` and
/// `of_query[qo_token]`. So `remap(.., causal)` on each rank, merged over ranks, is causal attention. Entry `s` of a
/// cache that compresses each `m` tokens to one stands at its last token, `ranks = m` and `rank = m - 1`.
struct InterleavedPositions {
  int ranks_;
  int rank_;
  int interleave_;
  Tensor1<int> of_query_;
  TensorBounds of_query_range_;
  Divisor<int> interleave_div_;

#line _ "variants/src/remap/interleaved_positions.rs"
  ATTN_FN int remap_qo_pos(RowIndex at) const {
    return of_query_[at.qo_token];
  }

#line _ "variants/src/remap/interleaved_positions.rs"
  ATTN_FN int remap_kv_pos(KvIndex at) const {
    return add(mul(add(mul(div_by(at.kv_pos, interleave_div_), ranks_), rank_), interleave_), rem_by(at.kv_pos, interleave_div_));
  }

#line _ "derived from logits_mask"
  ATTN_FN Tile remap_over(const Tile& at) const {
    Tile to = at;
    {
      const auto qo_token = interval::coordinate(at.qo_token_min, at.qo_token_max);
      interval::set_coordinate(to.qo_pos_min, to.qo_pos_max, interval_of(of_query_, of_query_range_, qo_token));
    }
    {
      const auto kv_pos = interval::coordinate(at.kv_pos_min, at.kv_pos_max);
      const auto v1 = interval::of(interleave_);
      interval::set_coordinate(to.kv_pos_min, to.kv_pos_max, interval::add(interval::mul(interval::add(interval::mul(interval::div(kv_pos, v1), interval::of(ranks_)), interval::of(rank_)), v1), interval::rem(kv_pos, v1)));
    }
    return to;
  }
#line _ "variant"
};
