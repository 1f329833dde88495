#line _ "variant"
namespace lang {

/// Packed documents: tokens attend to their own one; under `remap`, positions count from its start.
///
/// Attends where `start_of_query[qo_token] == start_of_key[kv_token]`. `remap(packed_documents(..), causal + rope)` is what
/// `causal + rope` would be for each document by itself: positions are `qo_pos - start_of_query` and `kv_pos - start_of_key` (Llama 3,
/// arXiv 2407.21783, section 3.2, packs so).
struct PackedDocuments {
  Tensor1<int> start_of_query_;
  TableRange start_of_query_range_;
  Tensor1<int> start_of_key_;
  TableRange start_of_key_range_;

#line _ "variants/src/packed_documents.rs"
  ATTN_FN bool logits_mask(LogitIndex at) const {
    return start_of_query_[at.qo_token] == start_of_key_[at.kv_token];
  }

#line _ "variants/src/packed_documents.rs"
  ATTN_FN int remap_qo_pos(RowIndex at) const {
    return sub(at.qo_pos, start_of_query_[at.qo_token]);
  }

#line _ "variants/src/packed_documents.rs"
  ATTN_FN int remap_kv_pos(KvIndex at) const {
    return sub(at.kv_pos, start_of_key_[at.kv_token]);
  }

#line _ "derived from logits_mask"
  ATTN_FN Tri mask_over(const Tile& at) const {
    const auto qo_token = range::word(at.qo_token_min, at.qo_token_max);
    const auto kv_token = range::word(at.kv_token_min, at.kv_token_max);
    return range::tri(range::eq(range_of(start_of_query_, start_of_query_range_, qo_token), range_of(start_of_key_, start_of_key_range_, kv_token)));
  }

#line _ "derived from logits_mask"
  ATTN_FN Tile remap_over(const Tile& at) const {
    Tile to = at;
    {
      const auto qo_pos = range::word(at.qo_pos_min, at.qo_pos_max);
      const auto qo_token = range::word(at.qo_token_min, at.qo_token_max);
      range::set_word(to.qo_pos_min, to.qo_pos_max, range::sub(qo_pos, range_of(start_of_query_, start_of_query_range_, qo_token)));
    }
    {
      const auto kv_pos = range::word(at.kv_pos_min, at.kv_pos_max);
      const auto kv_token = range::word(at.kv_token_min, at.kv_token_max);
      range::set_word(to.kv_pos_min, to.kv_pos_max, range::sub(kv_pos, range_of(start_of_key_, start_of_key_range_, kv_token)));
    }
    return to;
  }
#line _ "variant"
};
