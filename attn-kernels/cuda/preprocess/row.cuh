// How threads of K/V preprocessing share the rows of a key, and how they store them.
#pragma once
#include "memory/row.cuh"

constexpr int KV_PREPROCESS_THREADS = 128;
constexpr int KV_PREPROCESS_LANES = row_lanes(HEAD_DIM_QK > HEAD_DIM_VO ? HEAD_DIM_QK : HEAD_DIM_VO);  // per key
constexpr int KV_PREPROCESS_KEYS_AT_ONCE = KV_PREPROCESS_THREADS / KV_PREPROCESS_LANES;
// Keys of a CTA. In a mixed launch it first looks whether decode alone reads them, which pays for many.
constexpr int KV_PREPROCESS_KEYS = KV_PREPROCESS_KEYS_AT_ONCE * (MIXED && !SHARED_ROWS ? 16 : 1);
// Heads per thread: the location of a key and the part of its transform that is independent of the head are computed
// once.
constexpr int KV_PREPROCESS_HEADS = HEAD_DIM_QK > 256 || HEAD_DIM_VO > 256 ? 1 : 4;

// The row type that the hook sees. HALVES only if it takes all lanes of a key.
template <int DIM, bool HOOKED>
struct PreprocessRowOf {
  static constexpr bool HALVES = HOOKED && HookRow<DIM>::IN_HALVES && HookRow<DIM>::LANES_OF_ROW == KV_PREPROCESS_LANES;
  using Row = LaneRow<KV_PREPROCESS_LANES, row_values(DIM), HALVES, DIM>;
};
template <int DIM, bool HOOKED>
using PreprocessRow = typename PreprocessRowOf<DIM, HOOKED>::Row;

template <class Row>
inline void store_eight(unsigned short* row, int eight, uint4 words) {
  unsigned short* here = row + Row::first() + 8 * eight;
  if constexpr (Row::IN_HALVES) {
    *reinterpret_cast<uint2*>(here) = {words.x, words.y};
    *reinterpret_cast<uint2*>(row + Row::dim_of(4)) = {words.z, words.w};
  } else {
    store_16(here, words);
  }
}
