// A tile of logits in registers, and where each of them stands.
#pragma once
#include "prefill/fragments.cuh"
#include "schedule/kv_range.cuh"

// What the variant's hooks may ask of the tile at hand.
struct LogitTile {
  const KernelParams& p;
  const Variant& variant;
  const QueryBlock& block;
  const SpanKeys& span;
  int first_key;         // of the span
  const int* positions;  // under a list: of the tile's keys
  float unit;            // what a product of query and key is multiplied by: a logit

  int position(int column) const { return Variant::HAS_KV_LIST ? positions[column] : first_key + column; }
  // Under a list: which block of it.
  int slot(int column) const { return span.slot(first_key + column); }
  bool exists(int position) const { return span.exists(position); }
};

// f(logit, index word, whether the row exists, r) for this thread's logits of the 8-column blocks from `first` to `end`; `r` is
// the row's number among this thread's.
template <class F>
inline void for_each_logit(Logits& s, const LogitTile& tile, int first, int end, F f) {
#pragma unroll
  for (int r = 0; r < ROWS_PER_THREAD; ++r) {
    LogitIndex at;
    static_cast<RowIndex&>(at) = tile.block.at(tile.p, fragment_row(r));
    bool real_row = tile.block.has(fragment_row(r));
    int first_token = first_key_token(tile.p, tile.block.request, at);
#pragma unroll
    for (int n = first; n < end; ++n)
#pragma unroll
      for (int e = 0; e < 2; ++e) {
        if constexpr (!Variant::HAS_KV_LIST) at.kv_step = n * 8 + e;
        at.kv_pos = tile.position(fragment_column() + n * 8 + e);
        at.kv_token = first_token + at.kv_pos;
        if constexpr (Variant::HAS_KV_LIST) at.kv_slot = tile.slot(fragment_column() + n * 8 + e);
        f(s[r / 2][n][r % 2 * 2 + e], at, real_row, r);
      }
  }
}
