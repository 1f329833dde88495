#line _ "variant"
namespace lang {

/// Causal mask: a query attends to the keys up to its own position.
///
/// Attends where `kv_pos <= qo_pos`. Positions are absolute, so that the last query of a request stands at its last
/// key, in prefill, chunked prefill and decode alike ("Attention Is All You Need", arXiv 1706.03762, section 3.2.3).
struct Causal {

#line _ "variants/src/causal.rs"
  ATTN_FN bool logits_mask(LogitIndex at) const {
    return at.kv_pos <= at.qo_pos;
  }

#line _ "variants/src/causal.rs"
  ATTN_FN TileClass tile_class(Tile tile) const {
    if (tile.kv_pos_min > tile.qo_pos_max) {
      return TileClass::Skip;
    } else if (tile.kv_pos_max <= tile.qo_pos_min) {
      return TileClass::Full;
    } else {
      return TileClass::Partial;
    }
  }
#line _ "variant"
};
