#line _ "variant"
namespace lang {

/// Chunks of a longer sequence: under `remap`, positions count from where each chunk starts.
///
/// Under `remap(chunk_positions(qo_start=.., kv_start=..), inner)` the hooks of `inner` see the positions
/// `qo_start + qo_row` and `kv_start + kv_pos`: one step of ring attention (arXiv 2310.01889), where queries and keys
/// are chunks of a sequence.
struct ChunkPositions {
  int qo_start_;
  int kv_start_;

#line _ "variants/src/remap/chunk_positions.rs"
  ATTN_FN int remap_qo_pos(RowIndex at) const {
    return add(qo_start_, at.qo_row);
  }

#line _ "variants/src/remap/chunk_positions.rs"
  ATTN_FN int remap_kv_pos(KvIndex at) const {
    return add(kv_start_, at.kv_pos);
  }

#line _ "derived from logits_mask"
  ATTN_FN Tile remap_over(const Tile& at) const {
    Tile to = at;
    {
      const auto qo_row = interval::coordinate(at.qo_row_min, at.qo_row_max);
      interval::set_coordinate(to.qo_pos_min, to.qo_pos_max, interval::add(interval::of(qo_start_), qo_row));
    }
    {
      const auto kv_pos = interval::coordinate(at.kv_pos_min, at.kv_pos_max);
      interval::set_coordinate(to.kv_pos_min, to.kv_pos_max, interval::add(interval::of(kv_start_), kv_pos));
    }
    return to;
  }
#line _ "variant"
};
