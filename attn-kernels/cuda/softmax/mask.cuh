// Masks S where a tile is not proven full: by an interval of keys per row, or by one bit per element.
#pragma once
#include "softmax/score_tile.cuh"
#include "softmax/units.cuh"

// Whether the unmasked keys of every row form an interval.
constexpr bool MASK_IS_INTERVAL = Variant::HAS_BOUNDS || !Variant::HAS_LOGITS_MASK;

// Variants that store to memory must not do so for rows past the end of the Q tile.
inline bool row_exists(const ScoreTile& tile, int r) {
  return !Variant::STORES || tile.q_tile.has_row(fragment_row(r));
}

// With a KV list: whether no element of the tile is masked. The listed keys are scattered; if the tile class is Full
// for all positions from the smallest to the largest one, it is for the listed ones.
inline bool listed_tile_is_full(const ScoreTile& tile) {
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
  return tile.variant.tile_class(make_tile(tile.q_tile.bounds(tile.p), tile.q_tile.request, first, last)) ==
         TileClass::Full;
}

// Mask of one bit per element, evaluated before S is available.
template <bool PER_ELEMENT>
class TileMask {
  static constexpr int FIRST_BIT = 32 - TILE_KEYS / 4;
  static_assert(FIRST_BIT >= 0, "the mask bits of a row fit a word");
  unsigned keep_bits_[ROWS_PER_THREAD];  // from FIRST_BIT on, two bits for every 8 columns

 public:
  // Evaluates the mask; returns whether any element of the warp is unmasked. The body has no branches, so that the
  // compiler computes what depends on the row or the key alone only once. It is a loop because a mask can be long and
  // registers are few.
  bool evaluate(const ScoreTile& tile) {
#pragma unroll
    for (unsigned& row : keep_bits_) row = 0;
#pragma unroll 1
    for (int n = 0; n < TILE_KEYS / 8; ++n)
#pragma unroll
      for (int r = 0; r < ROWS_PER_THREAD; ++r) {
        LogitIndex at;
        static_cast<RowIndex&>(at) = tile.q_tile.at(tile.p, fragment_row(r));
        keep_bits_[r] >>= 2;
#pragma unroll
        for (int e = 0; e < 2; ++e) {
          at.kv_pos = tile.position(fragment_column() + 8 * n + e);
          at.kv_token = first_key_token(tile.p, tile.q_tile.request, at) + at.kv_pos;
          if constexpr (Variant::HAS_KV_LIST) at.kv_slot = tile.slot(fragment_column() + 8 * n + e);
          bool keep = tile.exists(at.kv_pos) & row_exists(tile, r);
          if constexpr (Variant::HAS_LOGITS_MASK) keep = bool(keep & tile.variant.logits_mask(at));
          keep_bits_[r] |= static_cast<unsigned>(keep) << (30 + e);
        }
      }
    bool any = false;
#pragma unroll
    for (unsigned row : keep_bits_) any |= row != 0;
    return __any_sync(ALL_LANES, any);
  }

  void apply(ScoreFragment& s, const ScoreTile&) const {
#pragma unroll
    for (int r = 0; r < ROWS_PER_THREAD; ++r)
#pragma unroll
      for (int n = 0; n < TILE_KEYS / 8; ++n)
#pragma unroll
        for (int e = 0; e < 2; ++e) {
          float& x = s[r / 2][n][r % 2 * 2 + e];
          x = keep_bits_[r] & 1u << (FIRST_BIT + 2 * n + e) ? x : __uint_as_float(MASKED_BITS);
        }
  }
};

// The keys of each row form an interval: two compares per element.
template <>
class TileMask<false> {
  static Bounds keys(const ScoreTile& tile, int r) {
    // with a KV list, a missing key has position -1
    Bounds keys = {0, Variant::HAS_KV_LIST ? 0x7fffffff : tile.kv_range.end()};
    if constexpr (Variant::HAS_BOUNDS) {
      Bounds row_keys = tile.variant.kv_bounds(tile.q_tile.at(tile.p, fragment_row(r)));
      keys = {max(keys.begin, row_keys.begin), min(keys.end, row_keys.end)};
    }
    if (!row_exists(tile, r)) keys.end = 0;
    return keys;
  }

 public:
  // Returns whether any row of the warp has keys in this tile.
  bool evaluate(const ScoreTile& tile) {
    if constexpr (!Variant::HAS_BOUNDS || Variant::HAS_KV_LIST) return true;
    bool any = false;
#pragma unroll
    for (int r = 0; r < ROWS_PER_THREAD; ++r) {
      Bounds row_keys = keys(tile, r);
      any |= max(row_keys.begin, tile.first_key) < min(row_keys.end, tile.first_key + TILE_KEYS);
    }
    return __any_sync(ALL_LANES, any);
  }

  void apply(ScoreFragment& s, const ScoreTile& tile) const {
#pragma unroll
    for (int r = 0; r < ROWS_PER_THREAD; ++r) {
      Bounds row_keys = keys(tile, r);
#pragma unroll
      for (int n = 0; n < TILE_KEYS / 8; ++n)
#pragma unroll
        for (int e = 0; e < 2; ++e) {
          float& x = s[r / 2][n][r % 2 * 2 + e];
          x = in_bounds(row_keys, tile.position(fragment_column() + 8 * n + e)) ? x : __uint_as_float(MASKED_BITS);
        }
    }
  }
};

using ScoreMask = TileMask<!MASK_IS_INTERVAL>;
