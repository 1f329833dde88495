// Stores output rows whose elements have another type than those of queries.
#pragma once
#include "memory/address.cuh"
#include "memory/row.cuh"
#include "ops/fp8.cuh"

constexpr bool OUTPUT_HAS_OWN_TYPE = true;

// What rows of e4m3 are multiplied by: 1 over their scale. It is in fields of tensors that have no pages: the scale's
// bits, and the address of another factor of it, or null.
inline float output_factor(const KernelParams& p) {
  float scale = __uint_as_float(static_cast<unsigned>(p.q.page));
  if (p.o.page) scale *= *reinterpret_cast<const float*>(p.o.page);
  return __fdiv_rn(1.f, scale);
}

// Stores this lane's values of a row, rounded once.
template <class Row>
inline void store_output(const KernelParams& p, const RowIndex& at, const Row& row) {
  OutputElem* to = static_cast<OutputElem*>(p.o.data) + row_offset(p.o, at);
  if constexpr (sizeof(OutputElem) > 1) {
    store_row(to, row);
  } else {
    float factor = output_factor(p);
#pragma unroll
    for (int eight = 0; eight < Row::VALUES_OF_LANE / 8; ++eight) {
      if (!Row::holds(8 * eight)) continue;
      unsigned words[2];
#pragma unroll
      for (int i = 0; i < 2; ++i) {
        const float* x = row.x + 8 * eight + 4 * i;
        words[i] = fp8_pair<OutputElem>(x[0] * factor, x[1] * factor) |
                   fp8_pair<OutputElem>(x[2] * factor, x[3] * factor) << 16;
      }
      *reinterpret_cast<uint2*>(to + Row::first() + 8 * eight) = {words[0], words[1]};
    }
  }
}
