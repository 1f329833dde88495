// The CTA's query rows: from memory, through the variant's query_transform, into shared memory.
#pragma once
#include "rows.cuh"
#include "tile.cuh"

// Rows past the request's end repeat its last one; nothing is stored for them. A transformed row is complete at the next
// barrier, a plain one with the next group of background copies.
inline void load_queries(SharedTile<TILE_ROWS> to, const KernelParams& p, const Variant& variant, const Request& request, int kv_head,
                         int first_row, int last_row) {
#pragma unroll 2
  for (int row = RowWalk::row(); row < TILE_ROWS; row += RowWalk::ROWS_PER_PASS) {
    const RowIndex at = row_index(p, request, kv_head, min(first_row + row, last_row));
    const QoElem* from = static_cast<const QoElem*>(p.q.data) + row_offset(p.q, at) + 8 * RowWalk::chunk();
    const unsigned shared = to.at(row, RowWalk::chunk());
    if constexpr (Variant::HAS_QUERY_TRANSFORM) {
      LaneRow<RowWalk::CHUNKS, 8> q;
      unpack<QoElem>(q, *reinterpret_cast<const uint4*>(from));
      variant.query_transform(q, at);
      store_shared_16(shared, pack<QoElem>(q));
    } else {
      copy_async_16(shared, from);
    }
  }
}
