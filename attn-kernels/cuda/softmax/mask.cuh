// Masks S where a tile is not proven full: by an interval of keys per row, or by one bit per element.
#pragma once
#include "softmax/score_tile.cuh"
#include "softmax/units.cuh"

// Whether the unmasked keys of every row form an interval.
constexpr bool MASK_IS_INTERVAL = Variant::HAS_BOUNDS || !Variant::HAS_LOGITS_MASK;

// Variants that store to memory must not do so for rows past the end of the Q tile.
inline bool row_exists(const ScoreTile& tile, int row) { return !Variant::STORES || tile.q_tile.has_row(row); }

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
  Tile listed = make_tile(tile.q_tile.bounds(tile.p), tile.q_tile.request.kv_begin, first, last);
  return tile.variant.tile_class(listed) == TileClass::Full;
}

// Mask of one bit per element, evaluated before S is available.
template <bool PER_ELEMENT>
class TileMask {
  static constexpr int LANE_KEYS = (TILE_KEYS + 31) / 32, WORDS = (LANE_KEYS + 1) / 2;
  // Of 16 rows and 64 keys: bit 2 * n + e of byte 2 * j + r is this thread's row r, and its column e of the n-th 8
  // columns of the j-th 32 keys.
  unsigned keep_bits_[ROW_BLOCKS][WORDS];

 public:
  // Evaluates the mask; returns whether any element of the warp is unmasked.
  //
  // A lane evaluates keys of its own, lane + 32 * j, in all rows of the warp; the lanes then exchange bits for those of
  // their elements of S. So what depends on the key alone is loaded and computed before the loop, by one lane, and what
  // depends on the row alone once a row. The body has no branches, so that the compiler can do so. It is a loop because
  // a mask can be long and registers are few.
  bool evaluate(const ScoreTile& tile) {
    int lane = threadIdx.x % 32;
    unsigned any = 0;
#pragma unroll
    for (int m = 0; m < ROW_BLOCKS; ++m) {
      int first_row = fragment_row(2 * m) - lane / 4;
      PackedRows packed = tile.q_tile.rows_from(tile.p, first_row);
      unsigned rows[LANE_KEYS] = {};  // of each key, one bit per row
#pragma unroll 4  // loads of four rows overlap
      for (int i = 0; i < 16; ++i) {
        LogitIndex at;
        static_cast<RowIndex&>(at) =
            SHARED_ROWS ? tile.q_tile.at(tile.p, first_row + i) : tile.q_tile.at(tile.p, packed);
        packed.advance(tile.p);
        int first_token = first_key_token(tile.p, tile.q_tile.request, at);
        unsigned row = row_exists(tile, first_row + i) ? 1u << i : 0;
#pragma unroll
        for (int j = 0; j < LANE_KEYS; ++j) {
          set_key(at, tile, first_token, key_column(j));
          rows[j] |= tile.variant.logits_mask(at) ? row : 0;
        }
      }
#pragma unroll
      for (int j = 0; j < LANE_KEYS; ++j) {
        if (!tile.exists(tile.position(key_column(j)))) rows[j] = 0;
        any |= rows[j];
      }
      gather(keep_bits_[m], rows);
    }
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
          unsigned bit = 1u << (n / 4 % 2 * 16 + r % 2 * 8 + n % 4 * 2 + e);
          x = keep_bits_[r / 2][n / 8] & bit ? x : __uint_as_float(MASKED_BITS);
        }
  }

 private:
  // The column of this lane's j-th key.
  static int key_column(int j) { return min(32 * j + static_cast<int>(threadIdx.x % 32), TILE_KEYS - 1); }

  // Fetches the bits of this thread's elements of S from the lanes that have their keys.
  static void gather(unsigned (&bits)[WORDS], const unsigned (&rows)[LANE_KEYS]) {
#pragma unroll
    for (int word = 0; word < WORDS; ++word) {
      unsigned of_64_keys = rows[2 * word];
      if (2 * word + 1 < LANE_KEYS) of_64_keys |= rows[2 * word + 1] << 16;
      bits[word] = 0;
#pragma unroll
      for (int n = 0; n < 4; ++n)
#pragma unroll
        for (int e = 0; e < 2; ++e) {
          unsigned of_key = __shfl_sync(ALL_LANES, of_64_keys, 8 * n + fragment_column() + e);
          bits[word] |= (of_key >> threadIdx.x % 32 / 4 & 0x01010101) << (2 * n + e);
        }
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
    if (!row_exists(tile, fragment_row(r))) keys.end = 0;
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
