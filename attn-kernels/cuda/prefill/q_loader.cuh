// The CTA's query rows: from memory into shared memory, and there through the variant's query_transform.
#pragma once
#include "softmax/score_element.cuh"
#include "schedule/q_tile.cuh"
#include "memory/row.cuh"
#include "memory/smem_tile.cuh"

// How so many threads, from the `FIRST` on, walk the query tile: neighbouring lanes hold a row, as the row hooks want it.
template <int FIRST, int COUNT>
struct QueryWalk {
  using Row = RowOf<HEAD_DIM>;
  static constexpr int LANES = Row::LANES_OF_ROW;
  static constexpr int CHUNKS = Row::VALUES_OF_LANE / 8;  // of 16 bytes, of a lane
  static constexpr int ROWS_PER_PASS = COUNT / LANES;
  static_assert(TILE_ROWS % ROWS_PER_PASS == 0, "passes are whole: lanes stay together");

  // This thread's first.
  static int chunk() { return threadIdx.x % LANES * CHUNKS; }
  // This thread's row in the first pass.
  static int row() { return (threadIdx.x - FIRST) / LANES; }
};
// Those that multiply.
using QueryRows = QueryWalk<0, THREADS>;

template <class Walk = QueryRows>
inline void copy_queries(QueryTileRows to, const KernelParams& p, const QueryBlock& block) {
  if (!Walk::Row::holds()) return;
  unsigned first = to.at(Walk::row(), Walk::chunk());
#pragma unroll 4
  for (int row = 0; row < TILE_ROWS; row += Walk::ROWS_PER_PASS) {
    RowIndex at = block.at(p, block.existing(row + Walk::row()));
    const QoElem* from = static_cast<const QoElem*>(p.q.data) + row_offset(p.q, at) + 8 * Walk::chunk();
    copy_async_16(to.down(first, row), from);
#pragma unroll
    for (int i = 1; i < Walk::CHUNKS; ++i) copy_async_16(to.at(row + Walk::row(), Walk::chunk() + i), from + 8 * i);
  }
}

// By the variant, or from one element type to the other.
constexpr bool QUERIES_REWRITTEN = Variant::HAS_QUERY_TRANSFORM || !SAME<LogitElem, QoElem>;

// In place, rows as lanes of type Q hold them: of `ROWS` from the `first` on, by THREADS_OF_ROWS threads, of which this is `thread`. Where those that multiply copied the
// queries, each works on its own chunks, and need not wait for others.
template <int ROWS = TILE_ROWS, int THREADS_OF_ROWS = THREADS, class Q = QueryRows::Row>
inline void transform_queries(QueryTileRows queries, const KernelParams& p, const Variant& variant, const QueryBlock& block, int first = 0,
                              int thread = threadIdx.x) {
  constexpr int ROWS_PER_PASS = THREADS_OF_ROWS / QueryRows::LANES;
#pragma unroll 1
  for (int pass = 0; pass < ROWS / ROWS_PER_PASS; ++pass) {
    int row = first + pass * ROWS_PER_PASS + thread / QueryRows::LANES;
    RowIndex at = block.at(p, block.existing(row));
    Q q;
    if constexpr (Q::IN_HALVES) {
      auto shared = [&](int first) { return queries.at(row, first / 8) + first % 8 * 2; };
      unsigned lower = shared(Q::first()), upper = shared(Q::first() + HEAD_DIM / 2);
      uint2 low = load_shared_8(lower), high = load_shared_8(upper);
      unpack<QoElem>(q, {low.x, low.y, high.x, high.y});
      if constexpr (Variant::HAS_QUERY_TRANSFORM) variant.query_transform(q, at);
      uint4 words = pack_saturated<LogitElem>(q);
      store_shared_8(lower, {words.x, words.y});
      store_shared_8(upper, {words.z, words.w});
    } else {
      auto shared = [&](int i) { return queries.at(row, QueryRows::chunk() + i); };
#pragma unroll
      for (int i = 0; i < QueryRows::CHUNKS; ++i) {
        uint4 words = {};
        if (q.holds()) words = load_shared_16(shared(i));
        unpack<QoElem>(q, words, i);
      }
      if constexpr (Variant::HAS_QUERY_TRANSFORM) variant.query_transform(q, at);
      if (q.holds())
#pragma unroll
        for (int i = 0; i < QueryRows::CHUNKS; ++i) store_shared_16(shared(i), pack_saturated<LogitElem>(q, i));
    }
  }
}
