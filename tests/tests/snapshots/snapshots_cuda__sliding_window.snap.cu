#line _ "variant"
namespace lang {

/// Sliding window: a query attends to the last `window` keys, its own among them.
///
/// Attends where `qo_pos - kv_pos < window`. Keys *newer* than the query are not masked by it: compose it with
/// `causal`. Together they leave `max(0, qo_pos - window + 1) ..= qo_pos`: `window` keys. A window of 1 leaves the
/// query's own key. A window of 0 masks the query's own key too: alone it leaves the newer keys, and with `causal`
/// nothing, which makes every output row zero. (Longformer, arXiv 2004.05150; Mistral 7B, arXiv 2310.06825, whose
/// `sliding_window = 4096` is the same number here.)
struct SlidingWindow {
  int window_;

#line _ "variants/src/sliding_window.rs"
  ATTN_FN bool logits_mask(LogitIndex at) const {
    return at.qo_pos - at.kv_pos < window_;
  }

#line _ "variants/src/sliding_window.rs"
  ATTN_FN TileClass tile_class(Tile tile) const {
    if (tile.qo_pos_min - tile.kv_pos_max >= window_) {
      return TileClass::Skip;
    } else if (tile.qo_pos_max - tile.kv_pos_min < window_) {
      return TileClass::Full;
    } else {
      return TileClass::Partial;
    }
  }
#line _ "variant"
};
