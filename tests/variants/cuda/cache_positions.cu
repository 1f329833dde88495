#line _ "variant"
namespace lang {

/// Positions in the cache of an endless text: they count the kept keys alone.
///
/// The text keeps its first keys and a window of the last ones (StreamingLLM, arXiv 2309.17453). Under
/// `remap(cache_positions(sink=.., window=..), inner)` the hooks of `inner` see positions that never exceed those of
/// training. Keys between the first ones and the window may be in the page table, or not: pages that left the window in
/// part keep their place in it. [`Streaming`](crate::Streaming) with the same parameters masks them.
struct CachePositions {
  int sink_;
  int window_;

#line _ "variants/src/remap/cache_positions.rs"
  ATTN_FN int remap_qo_pos(RowIndex at) const {
    return sub(at.qo_pos, max(sub(sub(at.kv_len, sink_), window_), 0));
  }

#line _ "variants/src/remap/cache_positions.rs"
  ATTN_FN int remap_kv_pos(KvIndex at) const {
    const int dropped = max(sub(sub(at.kv_len, sink_), window_), 0);
    return at.kv_pos < sink_ ? at.kv_pos : sub(at.kv_pos, dropped);
  }

#line _ "derived from logits_mask"
  ATTN_FN Tile remap_over(const Tile& at) const {
    Tile to = at;
    {
      const auto qo_pos = interval::coordinate(at.qo_pos_min, at.qo_pos_max);
      const auto kv_len = interval::of(at.kv_len);
      interval::set_coordinate(to.qo_pos_min, to.qo_pos_max, interval::sub(qo_pos, interval::max(interval::sub(interval::sub(kv_len, interval::of(sink_)), interval::of(window_)), interval::of(0))));
    }
    {
      const auto kv_len = interval::of(at.kv_len);
      const auto v1 = interval::of(sink_);
      const auto kv_pos = interval::coordinate(at.kv_pos_min, at.kv_pos_max);
      interval::set_coordinate(to.kv_pos_min, to.kv_pos_max, interval::select(interval::lt(kv_pos, v1), kv_pos, interval::sub(kv_pos, interval::max(interval::sub(interval::sub(kv_len, v1), interval::of(window_)), interval::of(0)))));
    }
    return to;
  }
#line _ "variant"
};
