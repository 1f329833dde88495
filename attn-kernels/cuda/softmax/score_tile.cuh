// A tile of S in registers together with the coordinates of its elements, as the hooks of a variant take them.
#pragma once
#include "prefill/fragments.cuh"
#include "schedule/kv_range.cuh"

// What the hooks of a variant may read about the tile.
struct ScoreTile {
  const KernelParams& p;
  const Variant& variant;
  const QTile& q_tile;
  const KvRange& kv_range;
  int first_key;         // in the KV range
  const int* positions;  // with a KV list: positions of the tile's keys
  float unit;            // the factor from Q K^T to a logit

  int position(int column) const { return Variant::HAS_KV_LIST ? positions[column] : first_key + column; }
  // With a KV list: the index of the list's block that holds the column.
  int slot(int column) const { return kv_range.slot(first_key + column); }
  bool exists(int position) const { return kv_range.exists(position); }
};

inline void set_key(LogitIndex& at, const ScoreTile& tile, int first_token, int column) {
  at.kv_pos = tile.position(column);
  at.kv_token = first_token + at.kv_pos;
  if constexpr (Variant::HAS_KV_LIST) at.kv_slot = tile.slot(column);
}

// Calls f(score, coordinates, whether the row exists, r) for this thread's elements of the 8-column blocks from `first`
// to `end`; `r` numbers the thread's rows.
template <class F>
inline void for_each_score(ScoreFragment& s, const ScoreTile& tile, int first, int end, F f) {
#pragma unroll
  for (int r = 0; r < ROWS_PER_THREAD; ++r) {
    LogitIndex at;
    static_cast<RowIndex&>(at) = tile.q_tile.at(tile.p, fragment_row(r));
    bool real_row = tile.q_tile.has_row(fragment_row(r));
    int first_token = first_key_token(tile.p, tile.q_tile.request, at);
#pragma unroll
    for (int n = first; n < end; ++n)
#pragma unroll
      for (int e = 0; e < 2; ++e) {
        if constexpr (!Variant::HAS_KV_LIST) at.kv_step = n * 8 + e;
        set_key(at, tile, first_token, fragment_column() + n * 8 + e);
        f(s[r / 2][n][r % 2 * 2 + e], at, real_row, r);
      }
  }
}
