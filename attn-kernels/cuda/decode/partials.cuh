// The partials (O, row_max, row_sum) of an item's rows in shared memory: one of every warp that had keys of its own.
#pragma once

#include "decode/kv_pipeline.cuh"

// Partial O lies in the stage of the pipeline into which no copy is in flight.
struct SmemPartials {
  static constexpr int MD_BYTES = KEY_WARPS * TILE_ROWS * sizeof(float2);

  unsigned char* smem;
  int stage;
  float2* md_base;  // MD_BYTES: (row_max, row_sum) of each pipeline and row

  static constexpr int PITCH = (HEAD_DIM_VO + 31) / 32 * 32;  // floats of a row of partial O; swizzled within 32

  // The address of `dim`; dims up to the next multiple of eight follow it. The swizzle gives lanes with the same dim of
  // several rows different banks. With FP8, two of them share a bank.
  float* partial_o(int key_warp, int row, int dim) const {
    return reinterpret_cast<float*>(smem + KvPipeline::stage_scratch_offset(key_warp, stage)) + row * PITCH +
           (dim ^ row / 2 % 4 * 8);
  }
  float2* md(int key_warp, int row) const { return md_base + key_warp * TILE_ROWS + row; }
};
static_assert(TILE_ROWS * SmemPartials::PITCH * 4 <= KvPipeline::STAGE_SCRATCH_BYTES, "partials fit a stage");
