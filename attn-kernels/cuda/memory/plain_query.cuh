// Loads queries that have in memory the type that kernels compute in; `memory/query.cuh` loads e4m3.
#pragma once
#include "memory/address.cuh"
#include "arch/ptx.cuh"
#include "memory/row.cuh"

// Loads this lane's values of a row; lanes without values have zeros.
template <class Row>
inline void load_query_row(Row& row, const KernelParams& p, const RowIndex& at) {
  load_row(row, static_cast<const QoElem*>(p.q.data) + row_offset(p.q, at) + Row::first());
}

// Chunks of eight elements of a row of queries, from the chunk `first` on, which go to shared memory.
struct QueryChunks {
  const QoElem* from;

  QueryChunks(const KernelParams& p, const RowIndex& at, int first)
      : from(static_cast<const QoElem*>(p.q.data) + row_offset(p.q, at) + 8 * first) {}
  void copy(unsigned shared, int i) const { cp_async_16(shared, from + 8 * i); }
};
