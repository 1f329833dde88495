#line _ "variant"
namespace lang {

/// Packed documents: tokens attend to their own one; under `remap`, positions count from its start.
///
/// Attends where `start_of_query[qo_token] == start_of_key[kv_token]` (packing as in Llama 3, arXiv 2407.21783, section
/// 3.2). Under `remap` the hooks inside see `qo_pos - start_of_query[qo_token]` and `kv_pos - start_of_key[kv_token]`,
/// so `remap(packed_documents(..), causal + rope)` computes `causal + rope` for each document by itself.
struct PackedDocuments {
  Tensor1<int> start_of_query_;
  TensorBounds start_of_query_range_;
  Tensor1<int> start_of_key_;
  TensorBounds start_of_key_range_;

#line _ "variants/src/remap/packed_documents.rs"
  ATTN_FN bool logits_mask(LogitIndex at) const {
    return start_of_query_[at.qo_token] == start_of_key_[at.kv_token];
  }

#line _ "variants/src/remap/packed_documents.rs"
  ATTN_FN int remap_qo_pos(RowIndex at) const {
    return sub(at.qo_pos, start_of_query_[at.qo_token]);
  }

#line _ "variants/src/remap/packed_documents.rs"
  ATTN_FN int remap_kv_pos(KvIndex at) const {
    return sub(at.kv_pos, start_of_key_[at.kv_token]);
  }

#line _ "derived from logits_mask"
  ATTN_FN Tristate mask_over(const Tile& at) const {
    const auto qo_token = interval::coordinate(at.qo_token_min, at.qo_token_max);
    const auto kv_token = interval::coordinate(at.kv_token_min, at.kv_token_max);
    return interval::tristate(interval::eq(interval_of(start_of_query_, start_of_query_range_, qo_token), interval_of(start_of_key_, start_of_key_range_, kv_token)));
  }

#line _ "derived from logits_mask"
  ATTN_FN Tile remap_over(const Tile& at) const {
    Tile to = at;
    {
      const auto qo_pos = interval::coordinate(at.qo_pos_min, at.qo_pos_max);
      const auto qo_token = interval::coordinate(at.qo_token_min, at.qo_token_max);
      interval::set_coordinate(to.qo_pos_min, to.qo_pos_max, interval::sub(qo_pos, interval_of(start_of_query_, start_of_query_range_, qo_token)));
    }
    {
      const auto kv_pos = interval::coordinate(at.kv_pos_min, at.kv_pos_max);
      const auto kv_token = interval::coordinate(at.kv_token_min, at.kv_token_max);
      interval::set_coordinate(to.kv_pos_min, to.kv_pos_max, interval::sub(kv_pos, interval_of(start_of_key_, start_of_key_range_, kv_token)));
    }
    return to;
  }
#line _ "variant"
};
