#line _ "variant"
namespace lang {

/// Given positions: under `remap`, positions come from tables.
///
/// Under `remap(positions(of_query=.., of_key=..), inner)` the hooks of `inner` see `of_query[qo_token]` and
/// `of_key[kv_token]` as positions: for the zig-zag chunks of ring attention (arXiv 2310.01889; striped, arXiv
/// 2311.09431) and for caches that dropped keys. Outside of `remap` it does nothing.
struct Positions {
  Tensor1<int> of_query_;
  TensorBounds of_query_range_;
  Tensor1<int> of_key_;
  TensorBounds of_key_range_;

#line _ "variants/src/remap/positions.rs"
  ATTN_FN int remap_qo_pos(RowIndex at) const {
    return of_query_[at.qo_token];
  }

#line _ "variants/src/remap/positions.rs"
  ATTN_FN int remap_kv_pos(KvIndex at) const {
    return of_key_[at.kv_token];
  }

#line _ "derived from logits_mask"
  ATTN_FN Tile remap_over(const Tile& at) const {
    Tile to = at;
    {
      const auto qo_token = interval::coordinate(at.qo_token_min, at.qo_token_max);
      interval::set_coordinate(to.qo_pos_min, to.qo_pos_max, interval_of(of_query_, of_query_range_, qo_token));
    }
    {
      const auto kv_token = interval::coordinate(at.kv_token_min, at.kv_token_max);
      interval::set_coordinate(to.kv_pos_min, to.kv_pos_max, interval_of(of_key_, of_key_range_, kv_token));
    }
    return to;
  }
#line _ "variant"
};
