// How warpgroups write final rows: through shared memory in boxes, which the hardware stores (TMA) while the next piece of work has begun; straight from registers where
// rows have no place of their own; row by row what is less than a box.
#pragma once
#include "arch/mbarrier.cuh"
#include "prefill/epilogue.cuh"

// Whether output rows have a place of their own in shared memory.
constexpr bool OUTPUTS_STAGED = OUTPUT_BYTES > 0;
// Whether they need none: the lanes of a quad have whole chunks of 32 columns between them.
constexpr bool FROM_REGISTERS = !OUTPUTS_STAGED && !Variant::HAS_OUTPUT_TRANSFORM && COLUMNS % 32 == 0;

// Final rows without an output transform, straight from registers: of every 32 columns, the lanes of a quad exchange words until each has 16 bytes of the row.
inline void write_from_registers(const KernelParams& p, const Variant& variant, const Outputs& o, const RowStates& rows, float unit,
                                 const QueryBlock& block) {
  int lane = threadIdx.x % 4;
#pragma unroll
  for (int r = 0; r < ROWS_PER_THREAD; ++r) {
    RowIndex at = block.at(p, fragment_row(r));
    bool there = block.has(fragment_row(r));
    FinishedRow finished = finish_row(p, variant, rows.max[r], rows.sum[r], at);
    if (p.lse && lane == 0 && first_column() == 0 && there) p.lse[at.qo_token * p.lse_token + at.qo_head * p.lse_head] = finished.state.lse;
    float scale = finished.scale * unit;
    QoElem* to = static_cast<QoElem*>(p.o.data) + row_offset(p.o, at) + first_column() + 8 * lane;
#pragma unroll
    for (int group = 0; group < COLUMNS / 32; ++group) {
      unsigned x[4];
#pragma unroll
      for (int d = 0; d < 4; ++d) x[d] = pack2<QoElem>(o[r / 2][4 * group + d][r % 2 * 2] * scale, o[r / 2][4 * group + d][r % 2 * 2 + 1] * scale);
      // a 4 x 4 transpose: word d of lane l becomes word l of lane d
      bool odd = lane & 1, upper = lane & 2;
      unsigned first = __shfl_xor_sync(ALL_LANES, odd ? x[0] : x[1], 1), second = __shfl_xor_sync(ALL_LANES, odd ? x[2] : x[3], 1);
      (odd ? x[0] : x[1]) = first;
      (odd ? x[2] : x[3]) = second;
      first = __shfl_xor_sync(ALL_LANES, upper ? x[0] : x[2], 2);
      second = __shfl_xor_sync(ALL_LANES, upper ? x[1] : x[3], 2);
      (upper ? x[0] : x[2]) = first;
      (upper ? x[1] : x[3]) = second;
      if (there) store_16(to + 32 * group, {x[0], x[1], x[2], x[3]});
    }
  }
}

// Until what this warp gave to be stored has been read from shared memory: by all lanes, of which those that gave nothing need not wait.
inline void wait_boxes_read() {
  asm volatile("cp.async.bulk.wait_group.read 0;" ::: "memory");
  __syncwarp();
}

// Stores what the warp has in a panel of its place: a box at this element, head and token. By one lane, without a branch: the assembler then knows that the warp stays
// together, and keeps what it shares in registers of the warp.
inline void store_box(const TensorMap& map, unsigned panel, int column, const RowIndex& at) {
  asm volatile(
      "{\n"
      ".reg .pred mine;\n"
      "setp.eq.u32 mine, %6, 0;\n"
      "@mine cp.async.bulk.tensor.4d.global.shared::cta.tile.bulk_group [%0, {%2, %3, %4, %5}], [%1];\n"
      "}" ::"l"(&map), "r"(panel), "r"(column), "r"(at.qo_head), "r"(at.qo_token), "r"(0), "r"(threadIdx.x % 32)
      : "memory");
}

// Final rows through the warp's place: in boxes, if all of its rows are there, or row by row.
inline void write_staged_rows(const KernelParams& p, const WarpgroupParams& w, const Variant& variant, const Outputs& o, const RowStates& rows, float unit,
                              const QueryBlock& block, int warp, unsigned staging) {
  int lane = threadIdx.x % 32;
  float scale[ROWS_PER_THREAD], lse[ROWS_PER_THREAD];
#pragma unroll
  for (int r = 0; r < ROWS_PER_THREAD; ++r) {
    FinishedRow finished = finish_row(p, variant, rows.max[r], rows.sum[r], block.at(p, fragment_row(r)));
    scale[r] = finished.scale * unit;
    lse[r] = finished.state.lse;
  }
#pragma unroll
  for (int d = 0; d < COLUMNS / 8; d += 2) {
    unsigned x[4];
#pragma unroll
    for (int i = 0; i < 4; ++i) x[i] = pack2<QoElem>(o[0][d + i / 2][i % 2 * 2] * scale[i % 2], o[0][d + i / 2][i % 2 * 2 + 1] * scale[i % 2]);
    store_matrices(staged(staging, lane % 16, d + lane / 16), x);
  }
  if (w.output_boxes && block.has((warp + 1) * ROWS_PER_WARP - 1)) {
    fence_shared_for_tensor_cores();
    __syncwarp();
    RowIndex first = block.at(p, warp * ROWS_PER_WARP);
#pragma unroll
    for (int panel = 0; panel < STAGED_ROW_BYTES / 128; ++panel) store_box(w.o, staged(staging, 0, 8 * panel), 64 * panel, first);
    asm volatile("cp.async.bulk.commit_group;" ::: "memory");
  } else {
    __syncwarp();
    write_staged(p, block, staging);
  }
  if (p.lse && lane % 4 == 0)
#pragma unroll
    for (int r = 0; r < ROWS_PER_THREAD; ++r) {
      RowIndex at = block.at(p, fragment_row(r));
      if (block.has(fragment_row(r))) p.lse[at.qo_token * p.lse_token + at.qo_head * p.lse_head] = lse[r];
    }
}

// Final rows without an output transform. `staging`: the warp's place, if they have any.
inline void write_final(const KernelParams& p, const WarpgroupParams& w, const Variant& variant, const Outputs& o, const RowStates& rows, float unit,
                        const QueryBlock& block, int warp, unsigned staging) {
  if constexpr (FROM_REGISTERS)
    write_from_registers(p, variant, o, rows, unit, block);
  else if constexpr (OUTPUTS_STAGED)
    write_staged_rows(p, w, variant, o, rows, unit, block, warp, staging);
  else
    write_plain(p, variant, o, rows, unit, block, staging);
}
