// The shared memory of the CUDA-core mainloop beside K and V: the Q tile in f32, and the probabilities of a step.
#pragma once
#include "arch/ptx.cuh"
#include "memory/row.cuh"

constexpr int WARP_ROWS = TILE_ROWS / ROW_WARPS;  // query rows of a warp
static_assert(WARP_ROWS * ROW_WARPS == TILE_ROWS, "every warp has as many rows");

struct CudaCoreSmemQ {
  static constexpr int Q_BYTES = TILE_ROWS * HEAD_DIM_QK * 4;
  static constexpr int BYTES = Q_BYTES + WARPS * WARP_ROWS * WARP_KEYS * 4;

  unsigned base;

  // The address of a row's element; dims up to the next multiple of eight follow it.
  unsigned q(int row, int dim) const { return base + (row * HEAD_DIM_QK + dim) * 4; }
  // The address of the probability of a key of this warp's step, for a row of this warp; later keys follow it.
  unsigned prob(int row, int key) const {
    return base + Q_BYTES + ((threadIdx.x / 32 * WARP_ROWS + row) * WARP_KEYS + key) * 4;
  }
};

template <class Row>
inline void store_hook_row(CudaCoreSmemQ smem_q, int row, const Row& values) {
#pragma unroll
  for (int i = 0; i < Row::VALUES_OF_LANE; i += 4)
    if (Row::holds(i))
      store_shared_16(smem_q.q(row, Row::dim_of(i)),
                      {__float_as_uint(values.x[i]), __float_as_uint(values.x[i + 1]), __float_as_uint(values.x[i + 2]),
                       __float_as_uint(values.x[i + 3])});
}
