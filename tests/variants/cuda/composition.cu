struct Variant {
  Causal part0;
  Alibi part1;
  SoftCap part2;
  Sink part3;

  static constexpr bool HAS_QUERY_TRANSFORM = false;
  static constexpr bool HAS_KEY_TRANSFORM = false;
  static constexpr bool HAS_VALUE_TRANSFORM = false;
  static constexpr bool HAS_LOGITS_TRANSFORM = true;
  static constexpr bool HAS_LOGITS_BIAS = false;
  static constexpr bool HAS_LOGITS_SLOPE = false;
  static constexpr bool HAS_LOGITS_BIAS_ROW = false;
  static constexpr bool HAS_LOGITS_BOUND = true;
  static constexpr bool TRANSFORM_IS_SPECIAL = true;
  static constexpr bool HAS_LOGITS_MASK = true;
  static constexpr bool HAS_TILE_CLASS = true;
  static constexpr bool HAS_WEIGHT = false;
  static constexpr bool HAS_DENOMINATOR = false;
  static constexpr bool HAS_SINK = true;
  static constexpr bool HAS_OUTPUT_TRANSFORM = false;
  static constexpr bool HAS_KV_RANGE = false;
  static constexpr bool HAS_KV_LIST = false;
  static constexpr bool HAS_BOUNDS = true;
  static constexpr bool STORES = false;
  static constexpr bool MAX_SCALED = false;
  static constexpr bool PLAIN = false;
  static constexpr bool PLAIN_DIVIDE = false;
  static constexpr float MAX_FLOOR = -F32_INFINITY;

  ATTN_FN Bounds kv_bounds(const RowIndex& at) const {
    Bounds all = {-2147483647 - 1, 2147483647};
    const Bounds bounds0 = part0.kv_bounds(at);
    all.begin = max(all.begin, bounds0.begin);
    all.end = min(all.end, bounds0.end);
    return all;
  }

  ATTN_FN int kv_list_len(RowIndex at) const {
    return 0;
  }

  ATTN_FN int kv_list_block(RowIndex at, int n) const {
    return n;
  }

  template <class R> ATTN_FN void query_transform(R& q, RowIndex at) const {}

  template <class R> ATTN_FN void key_transform(R& k, KvIndex at) const {}

  template <class R> ATTN_FN void value_transform(R& v, KvIndex at) const {}

  ATTN_FN float logits_transform(Logit logit, LogitIndex at) const {
    logit = part1.logits_transform(logit, at);
    logit = part2.logits_transform(logit, at);
    return float(logit);
  }

  ATTN_FN auto logits_bias(LogitIndex at) const {
    return part1.logits_bias(at);
  }

  ATTN_FN float logits_slope(LogitIndex at) const {
    return part1.logits_slope(at);
  }

  ATTN_FN auto logits_bias_row(LogitIndex at) const {
    return 0.0f;
  }

  ATTN_FN float logits_bound() const {
    return part2.logits_bound();
  }

  ATTN_FN bool logits_mask(LogitIndex at) const {
    return part0.logits_mask(at);
  }

  ATTN_FN float weight(float logit, float row_max, LogitIndex at) const {
    return exp(logit - row_max);
  }

  ATTN_FN float denominator(float logit, float row_max, float weight, LogitIndex at) const {
    return weight;
  }

  ATTN_FN float sink_logit(RowIndex at) const {
    return part3.sink_logit(at);
  }

  template <class R> ATTN_FN void output_transform(R& o, RowState state, RowIndex at) const {}

  ATTN_FN Tuple2<int, int> kv_range(QueryTile tile) const {
    return Tuple2<int, int>{0, 2147483647};
  }

  ATTN_FN TileClass tile_class(Tile tile) const {
    TileClass all = TileClass::Full;
    if (const TileClass class0 = lang::interval::tile_class(part0.mask_over(tile)); class0 < all) all = class0;
    return all;
  }
};
static_assert(sizeof(Variant) == 48, "host and device agree");

}  // namespace lang

using lang::Variant;
