// Loads queries that are e4m3 in memory: elements times their scale, in f32 or rounded to QoElem.
#pragma once
#include "memory/address.cuh"
#include "arch/ptx.cuh"

// The scale of queries. It is in fields of tensors that have no pages: its bits, and the address of another factor of
// it, or null.
inline float query_scale(const KernelParams& p) {
  float scale = __uint_as_float(static_cast<unsigned>(p.q.page >> 32));
  return p.k_pre.page ? scale * *reinterpret_cast<const float*>(p.k_pre.page) : scale;
}

// Four neighbouring elements.
inline float4 load_four_of_query(const StoredQElem* from, float scale) {
  unsigned codes = *reinterpret_cast<const unsigned*>(from);
  float2 low = unpack2<f16>(fp8_to_f16<StoredQElem>(codes & 0xffff)),
         high = unpack2<f16>(fp8_to_f16<StoredQElem>(codes >> 16));
  return {low.x * scale, low.y * scale, high.x * scale, high.y * scale};
}

// Eight neighbouring elements as one 16-byte chunk of a tile.
inline uint4 load_eight_of_query(const StoredQElem* from, float scale) {
  float4 low = load_four_of_query(from, scale), high = load_four_of_query(from + 4, scale);
  return {pack2<QoElem>(low.x, low.y), pack2<QoElem>(low.z, low.w), pack2<QoElem>(high.x, high.y),
          pack2<QoElem>(high.z, high.w)};
}

// Loads this lane's values of a row; lanes without values have zeros.
template <class Row>
inline void load_query_row(Row& row, const KernelParams& p, const RowIndex& at) {
  const StoredQElem* from = static_cast<const StoredQElem*>(p.q.data) + row_offset(p.q, at);
  float scale = query_scale(p);
#pragma unroll
  for (int i = 0; i < Row::VALUES_OF_LANE; i += 4) {
    float4 four = {};
    if (Row::holds(i)) four = load_four_of_query(from + Row::dim_of(i), scale);
    row.set_four(i, four);
  }
}

// Chunks of eight elements of a row of queries, from the chunk `first` on, which go to shared memory.
struct QueryChunks {
  const StoredQElem* from;
  float scale;

  QueryChunks(const KernelParams& p, const RowIndex& at, int first)
      : from(static_cast<const StoredQElem*>(p.q.data) + row_offset(p.q, at) + 8 * first), scale(query_scale(p)) {}
  void copy(unsigned shared, int i) const { store_shared_16(shared, load_eight_of_query(from + 8 * i, scale)); }
};
