// Stores output rows whose elements have the type of those of queries; `memory/output.cuh` stores other types.
#pragma once
#include "memory/address.cuh"
#include "memory/row.cuh"

constexpr bool OUTPUT_HAS_OWN_TYPE = false;

// Stores this lane's values of a row, rounded once.
template <class Row>
inline void store_output(const KernelParams& p, const RowIndex& at, const Row& row) {
  store_row(static_cast<QoElem*>(p.o.data) + row_offset(p.o, at), row);
}
