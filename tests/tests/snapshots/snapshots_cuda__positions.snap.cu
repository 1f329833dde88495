#line _ "variant"
namespace lang {

/// Given positions: under `remap`, positions come from tables.
///
/// `remap(positions(of_query=.., of_key=..), causal + rope)` lets every hook inside see `of_query[qo_token]` and `of_key[kv_token]` as
/// positions: the zig-zag chunks of ring attention (arXiv 2310.01889; striped, arXiv 2311.09431), caches that dropped keys.
/// Outside of `remap` it does nothing.
struct Positions {
  Tensor1<int> of_query_;
  TableRange of_query_range_;
  Tensor1<int> of_key_;
  TableRange of_key_range_;

#line _ "variants/src/positions.rs"
  ATTN_FN int remap_qo_pos(RowIndex at) const {
    return of_query_[at.qo_token];
  }

#line _ "variants/src/positions.rs"
  ATTN_FN int remap_kv_pos(KvIndex at) const {
    return of_key_[at.kv_token];
  }

#line _ "derived from logits_mask"
  ATTN_FN Tile remap_over(const Tile& at) const {
    Tile to = at;
    {
      const auto qo_token = range::word(at.qo_token_min, at.qo_token_max);
      range::set_word(to.qo_pos_min, to.qo_pos_max, range_of(of_query_, of_query_range_, qo_token));
    }
    {
      const auto kv_token = range::word(at.kv_token_min, at.kv_token_max);
      range::set_word(to.kv_pos_min, to.kv_pos_max, range_of(of_key_, of_key_range_, kv_token));
    }
    return to;
  }
#line _ "variant"
};
