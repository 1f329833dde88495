// Loads the Q tile into shared memory, and applies the variant's query_transform there.
#pragma once
#include "softmax/score_element.cuh"
#include "schedule/q_tile.cuh"
#include "memory/row.cuh"
#include "memory/smem_tile.cuh"

// How COUNT threads from thread FIRST on cover the Q tile: neighbouring lanes hold a row, as row hooks need it.
template <int FIRST, int COUNT>
struct QLoader {
  using Row = RowOf<HEAD_DIM_QK>;
  static constexpr int LANES = Row::LANES_OF_ROW;
  static constexpr int CHUNKS = Row::VALUES_OF_LANE / 8;  // 16-byte chunks of a lane
  static constexpr int ROWS_PER_PASS = COUNT / LANES;
  static_assert(TILE_ROWS % ROWS_PER_PASS == 0, "passes are whole, so that warps stay converged");

  // This thread's first chunk.
  static int chunk() { return threadIdx.x % LANES * CHUNKS; }
  // This thread's row in the first pass.
  static int row() { return (threadIdx.x - FIRST) / LANES; }
};
// The consumer threads.
using ConsumerQLoader = QLoader<0, THREADS>;

template <class Loader = ConsumerQLoader>
inline void load_q(SmemQ to, const KernelParams& p, const QTile& q_tile) {
  if (!Loader::Row::holds()) return;
  unsigned first = to.at(Loader::row(), Loader::chunk());
#pragma unroll 4
  for (int row = 0; row < TILE_ROWS; row += Loader::ROWS_PER_PASS) {
    QueryChunks from(p, q_tile.at(p, q_tile.clamp_row(row + Loader::row())), Loader::chunk());
    from.copy(to.advance_rows(first, row), 0);
#pragma unroll
    for (int i = 1; i < Loader::CHUNKS; ++i) from.copy(to.at(row + Loader::row(), Loader::chunk() + i), i);
  }
}

// Whether Q is transformed in shared memory: by the variant, or to another element type.
constexpr bool TRANSFORM_Q = Variant::HAS_QUERY_TRANSFORM || !SAME<QkElem, QoElem>;

// Transforms Q in place, rows spread over lanes as Q: ROWS rows from `first` on, by THREADS_OF_ROWS threads, of which
// this is `thread`. Where the consumers loaded Q themselves, each transforms its own chunks without waiting for others.
template <int ROWS = TILE_ROWS, int THREADS_OF_ROWS = THREADS, class Q = ConsumerQLoader::Row>
inline void transform_q(SmemQ smem_q, const KernelParams& p, const Variant& variant, const QTile& q_tile, int first = 0,
                        int thread = threadIdx.x) {
  constexpr int ROWS_PER_PASS = THREADS_OF_ROWS / ConsumerQLoader::LANES;
#pragma unroll 1
  for (int pass = 0; pass < ROWS / ROWS_PER_PASS; ++pass) {
    int row = first + pass * ROWS_PER_PASS + thread / ConsumerQLoader::LANES;
    RowIndex at = q_tile.at(p, q_tile.clamp_row(row));
    Q q;
    if constexpr (Q::IN_HALVES) {
      auto shared = [&](int first) { return smem_q.at(row, first / 8) + first % 8 * 2; };
      unsigned lower = shared(Q::first()), upper = shared(Q::first() + HEAD_DIM_QK / 2);
      uint2 low = load_shared_8(lower), high = load_shared_8(upper);
      unpack<QoElem>(q, {low.x, low.y, high.x, high.y});
      if constexpr (Variant::HAS_QUERY_TRANSFORM) variant.query_transform(q, at);
      uint4 words = pack_saturated<QkElem>(q);
      store_shared_8(lower, {words.x, words.y});
      store_shared_8(upper, {words.z, words.w});
    } else {
      auto shared = [&](int i) { return smem_q.at(row, ConsumerQLoader::chunk() + i); };
#pragma unroll
      for (int i = 0; i < ConsumerQLoader::CHUNKS; ++i) {
        uint4 words = {};
        if (q.holds()) words = load_shared_16(shared(i));
        unpack<QoElem>(q, words, i);
      }
      if constexpr (Variant::HAS_QUERY_TRANSFORM) variant.query_transform(q, at);
      if (q.holds())
#pragma unroll
        for (int i = 0; i < ConsumerQLoader::CHUNKS; ++i) store_shared_16(shared(i), pack_saturated<QkElem>(q, i));
    }
  }
}
