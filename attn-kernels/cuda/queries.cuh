// The CTA's query rows: from memory into shared memory, and there through the variant's query_transform.
#pragma once
#include "logit_elem.cuh"
#include "query_block.cuh"
#include "rows.cuh"
#include "tile.cuh"

// How the CTA walks the query tile: CHUNKS neighbouring lanes hold a row, 16 bytes each, as the row hooks want it.
struct QueryRows {
  static constexpr int CHUNKS = HEAD_DIM / 8;
  static constexpr int ROWS_PER_PASS = THREADS / CHUNKS;

  static int chunk() { return threadIdx.x % CHUNKS; }
  // This thread's row in the first pass.
  static int row() { return threadIdx.x / CHUNKS; }
};

inline void copy_queries(SharedTile<TILE_ROWS> to, const KernelParams& p, const QueryBlock& block) {
  unsigned first = to.at(QueryRows::row(), QueryRows::chunk());
#pragma unroll 4
  for (int row = 0; row < TILE_ROWS; row += QueryRows::ROWS_PER_PASS) {
    RowIndex at = block.at(p, block.existing(row + QueryRows::row()));
    copy_async_16(to.down(first, row), static_cast<const QoElem*>(p.q.data) + row_offset(p.q, at) + 8 * QueryRows::chunk());
  }
}

// By the variant, or from one element type to the other.
constexpr bool QUERIES_REWRITTEN = Variant::HAS_QUERY_TRANSFORM || !SAME<LogitElem, QoElem>;

// In place. A thread works on the chunks that it copied itself, so it need not wait for others.
inline void transform_queries(SharedTile<TILE_ROWS> queries, const KernelParams& p, const Variant& variant,
                              const QueryBlock& block) {
#pragma unroll 1
  for (int row = QueryRows::row(); row < TILE_ROWS; row += QueryRows::ROWS_PER_PASS) {
    RowIndex at = block.at(p, block.existing(row));
    unsigned shared = queries.at(row, QueryRows::chunk());
    LaneRow<QueryRows::CHUNKS, 8> q;
    unpack<QoElem>(q, load_shared_16(shared));
    if constexpr (Variant::HAS_QUERY_TRANSFORM) variant.query_transform(q, at);
    store_shared_16(shared, pack_saturated<LogitElem>(q));
  }
}
