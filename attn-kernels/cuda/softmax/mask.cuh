// Which logits of a tile count, for tiles that are not proven full.
#pragma once
#include "softmax/score_tile.cuh"
#include "softmax/units.cuh"

// Whether the keys of a row are an interval.
constexpr bool INTERVALS = Variant::HAS_BOUNDS || !Variant::HAS_LOGITS_MASK;

// No store for a row that is not there.
inline bool row_counts(const LogitTile& tile, int r) { return !Variant::STORES || tile.block.has(fragment_row(r)); }

// Under a list: whether every logit of a tile counts. Its keys come from here and there; what is proven of all keys between the first and the
// last of them is proven of them.
inline bool all_listed_count(const LogitTile& tile) {
  int first = 0x7fffffff, last = -1;
#pragma unroll
  for (int i = 0; i < TILE_KEYS; i += 32) {
    int position = tile.positions[min(i + static_cast<int>(threadIdx.x % 32), TILE_KEYS - 1)];
    first = min(first, position);
    last = max(last, position);
  }
  if (__any_sync(ALL_LANES, first < 0)) return false;
  if constexpr (!Variant::HAS_TILE_CLASS) return !Variant::HAS_LOGITS_MASK;
  first = __reduce_min_sync(ALL_LANES, first);
  last = __reduce_max_sync(ALL_LANES, last);
  return tile.variant.tile_class(tile_against(tile.block.bounds(tile.p), tile.block.request, first, last)) == TileClass::Full;
}

// Which of this thread's logits of a tile count: asked one by one, before the logits are there.
template <bool ONE_BY_ONE>
class MaskOf {
  static constexpr int FIRST_BIT = 32 - TILE_KEYS / 4;
  static_assert(FIRST_BIT >= 0, "a row's bits are a word");
  unsigned kept_[ROWS_PER_THREAD];  // from FIRST_BIT on, two bits for every 8 columns

 public:
  // Whether any logit of the warp counts. Nothing is behind a condition, so that what depends on the row alone, or on the key
  // alone, is computed once for all of its logits; and it is a loop, since a mask may be long and registers are few.
  bool ask(const LogitTile& tile) {
#pragma unroll
    for (unsigned& row : kept_) row = 0;
#pragma unroll 1
    for (int n = 0; n < TILE_KEYS / 8; ++n)
#pragma unroll
      for (int r = 0; r < ROWS_PER_THREAD; ++r) {
        LogitIndex at;
        static_cast<RowIndex&>(at) = tile.block.at(tile.p, fragment_row(r));
        kept_[r] >>= 2;
#pragma unroll
        for (int e = 0; e < 2; ++e) {
          at.kv_pos = tile.position(fragment_column() + 8 * n + e);
          at.kv_token = first_key_token(tile.p, tile.block.request, at) + at.kv_pos;
          if constexpr (Variant::HAS_KV_LIST) at.kv_slot = tile.slot(fragment_column() + 8 * n + e);
          bool keep = tile.exists(at.kv_pos) & row_counts(tile, r);
          if constexpr (Variant::HAS_LOGITS_MASK) keep = bool(keep & tile.variant.logits_mask(at));
          kept_[r] |= static_cast<unsigned>(keep) << (30 + e);
        }
      }
    bool some = false;
#pragma unroll
    for (unsigned row : kept_) some |= row != 0;
    return __any_sync(ALL_LANES, some);
  }

  void apply(Logits& s, const LogitTile&) const {
#pragma unroll
    for (int r = 0; r < ROWS_PER_THREAD; ++r)
#pragma unroll
      for (int n = 0; n < TILE_KEYS / 8; ++n)
#pragma unroll
        for (int e = 0; e < 2; ++e) {
          float& x = s[r / 2][n][r % 2 * 2 + e];
          x = kept_[r] & 1u << (FIRST_BIT + 2 * n + e) ? x : __uint_as_float(MASKED_BITS);
        }
  }
};

// Each row's keys are an interval: two compares a logit.
template <>
class MaskOf<false> {
  static Bounds keys(const LogitTile& tile, int r) {
    // under a list, what is not there has the position -1
    Bounds keys = {0, Variant::HAS_KV_LIST ? 0x7fffffff : tile.span.end()};
    if constexpr (Variant::HAS_BOUNDS) {
      Bounds of_row = tile.variant.kv_bounds(tile.block.at(tile.p, fragment_row(r)));
      keys = {max(keys.begin, of_row.begin), min(keys.end, of_row.end)};
    }
    if (!row_counts(tile, r)) keys.end = 0;
    return keys;
  }

 public:
  // Whether any row of the warp has keys here.
  bool ask(const LogitTile& tile) {
    if constexpr (!Variant::HAS_BOUNDS || Variant::HAS_KV_LIST) return true;
    bool some = false;
#pragma unroll
    for (int r = 0; r < ROWS_PER_THREAD; ++r) {
      Bounds of_row = keys(tile, r);
      some |= max(of_row.begin, tile.first_key) < min(of_row.end, tile.first_key + TILE_KEYS);
    }
    return __any_sync(ALL_LANES, some);
  }

  void apply(Logits& s, const LogitTile& tile) const {
#pragma unroll
    for (int r = 0; r < ROWS_PER_THREAD; ++r) {
      Bounds of_row = keys(tile, r);
#pragma unroll
      for (int n = 0; n < TILE_KEYS / 8; ++n)
#pragma unroll
        for (int e = 0; e < 2; ++e) {
          float& x = s[r / 2][n][r % 2 * 2 + e];
          x = in_bounds(of_row, tile.position(fragment_column() + 8 * n + e)) ? x : __uint_as_float(MASKED_BITS);
        }
    }
  }
};

using LogitMask = MaskOf<!INTERVALS>;
