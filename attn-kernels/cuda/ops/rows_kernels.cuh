// Kernel entries attn_rows_*: append rows to a paged pool or gather rows from it; ops/rows.cuh describes them.
#pragma once
#include "ops/rows.cuh"

extern "C" __global__ void __launch_bounds__(OP_THREADS, 4) attn_rows_wide(const __grid_constant__ RowsParams p) {
  RowCopier<CHUNK<FromElem, ToElem>>::run(p, p.part[blockIdx.y], blockIdx.y == 0);
}
// For rows that are not multiples of 16 bytes or not aligned to them.
extern "C" __global__ void __launch_bounds__(OP_THREADS, 4) attn_rows_narrow(const __grid_constant__ RowsParams p) {
  RowCopier<1>::run(p, p.part[blockIdx.y], blockIdx.y == 0);
}
