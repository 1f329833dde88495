// Stores O of sm_90 prefill: staged in shared memory and written by TMA stores that overlap with the next work tile;
// straight from registers where O has no shared memory; row by row for tiles that are not full.
#pragma once
#include "arch/mbarrier.cuh"
#include "prefill/epilogue.cuh"

// Whether O has its own shared memory.
constexpr bool OUTPUTS_STAGED = SMEM_O_BYTES > 0;
// Whether O is stored from registers: each quad of lanes has whole groups of 32 columns.
constexpr bool STORE_FROM_REGISTERS = !OUTPUTS_STAGED && !OUTPUT_FROM_F32 && COLUMNS % 32 == 0;

// Stores 16 bytes of a row that exists. Predicated, as a branch hides from ptxas that the warp stays converged: each
// shuffle would then wait for the one before it.
inline void store_16_of_row(bool exists, void* to, const unsigned (&x)[4]) {
  asm volatile(
      "{\n"
      ".reg .pred exists;\n"
      "setp.ne.u32 exists, %5, 0;\n"
      "@exists st.global.v4.b32 [%0], {%1, %2, %3, %4};\n"
      "}" ::"l"(to),
      "r"(x[0]), "r"(x[1]), "r"(x[2]), "r"(x[3]), "r"(static_cast<unsigned>(exists))
      : "memory");
}

// Output rows without an output transform, straight from registers: for every 32 columns the lanes of a quad exchange
// words until each has 16 contiguous bytes of the row.
inline void store_o_from_registers(const KernelParams& p, const Variant& variant, const OutputFragment& o,
                                   const SoftmaxState& softmax, float unit, const QTile& q_tile) {
  int lane = threadIdx.x % 4;
#pragma unroll
  for (int r = 0; r < ROWS_PER_THREAD; ++r) {
    RowIndex at = q_tile.at(p, fragment_row(r));
    bool exists = q_tile.has_row(fragment_row(r));
    FinalizedRow finalized = finalize_row(p, variant, softmax.row_max[r], softmax.row_sum[r], at);
    if (p.lse && lane == 0 && first_column() == 0 && exists)
      p.lse[at.qo_token * p.lse_token + at.qo_head * p.lse_head] = finalized.state.lse;
    float scale = finalized.scale * unit;
    QoElem* to = static_cast<QoElem*>(p.o.data) + row_offset(p.o, at) + first_column() + 8 * lane;
#pragma unroll
    for (int group = 0; group < COLUMNS / 32; ++group) {
      unsigned x[4];
#pragma unroll
      for (int d = 0; d < 4; ++d)
        x[d] =
            pack2<QoElem>(o[r / 2][4 * group + d][r % 2 * 2] * scale, o[r / 2][4 * group + d][r % 2 * 2 + 1] * scale);
      // a 4 x 4 transpose: word d of lane l becomes word l of lane d
      bool odd = lane & 1, upper = lane & 2;
      unsigned first = __shfl_xor_sync(ALL_LANES, odd ? x[0] : x[1], 1),
               second = __shfl_xor_sync(ALL_LANES, odd ? x[2] : x[3], 1);
      (odd ? x[0] : x[1]) = first;
      (odd ? x[2] : x[3]) = second;
      first = __shfl_xor_sync(ALL_LANES, upper ? x[0] : x[2], 2);
      second = __shfl_xor_sync(ALL_LANES, upper ? x[1] : x[3], 2);
      (upper ? x[0] : x[2]) = first;
      (upper ? x[1] : x[3]) = second;
      store_16_of_row(exists, to + 32 * group, x);
    }
  }
}

// Waits until this warp's TMA stores have read shared memory. All lanes call it; lanes that issued none return at once.
inline void tma_store_wait() {
  asm volatile("cp.async.bulk.wait_group.read 0;" ::: "memory");
  __syncwarp();
}

// Commits the TMA stores that this thread has issued so far.
inline void tma_store_commit() { asm volatile("cp.async.bulk.commit_group;" ::: "memory"); }

// TMA store of one staged panel, a box at this column, head and token. Lane 0 issues it under a predicate instead of a
// branch: ptxas then knows that the warp stays converged, and keeps uniform values in uniform registers.
inline void tma_store(const TensorMap& map, unsigned panel, int column, const RowIndex& at) {
  asm volatile(
      "{\n"
      ".reg .pred mine;\n"
      "setp.eq.u32 mine, %6, 0;\n"
      "@mine cp.async.bulk.tensor.4d.global.shared::cta.tile.bulk_group [%0, {%2, %3, %4, %5}], [%1];\n"
      "}" ::"l"(&map),
      "r"(panel), "r"(column), "r"(at.qo_head), "r"(at.qo_token), "r"(0), "r"(threadIdx.x % 32)
      : "memory");
}

// Output rows through the warp's staging area: by TMA if all of the warp's rows exist, else row by row.
inline void store_o_staged(const KernelParams& p, const Sm90Params& w, const Variant& variant, const OutputFragment& o,
                           const SoftmaxState& softmax, float unit, const QTile& q_tile, int warp, unsigned staging) {
  int lane = threadIdx.x % 32;
  float scale[ROWS_PER_THREAD], lse[ROWS_PER_THREAD];
#pragma unroll
  for (int r = 0; r < ROWS_PER_THREAD; ++r) {
    FinalizedRow finalized =
        finalize_row(p, variant, softmax.row_max[r], softmax.row_sum[r], q_tile.at(p, fragment_row(r)));
    scale[r] = finalized.scale * unit;
    lse[r] = finalized.state.lse;
  }
#pragma unroll
  for (int d = 0; d < COLUMNS / 8; d += 2) {
    unsigned x[4];
#pragma unroll
    for (int i = 0; i < 4; ++i)
      x[i] = pack2<QoElem>(o[0][d + i / 2][i % 2 * 2] * scale[i % 2], o[0][d + i / 2][i % 2 * 2 + 1] * scale[i % 2]);
    stmatrix_x4(staged(staging, lane % 16, d + lane / 16), x);
  }
  if (w.use_tma_o && q_tile.has_row((warp + 1) * ROWS_PER_WARP - 1)) {
    fence_view_async_shared();
    __syncwarp();
    RowIndex first = q_tile.at(p, warp * ROWS_PER_WARP);
#pragma unroll
    for (int panel = 0; panel < STAGED_ROW_BYTES / 128; ++panel)
      tma_store(w.o, staged(staging, 0, 8 * panel), 64 * panel, first);
    tma_store_commit();
  } else {
    __syncwarp();
    store_staged(p, q_tile, staging);
  }
  if (p.lse && lane % 4 == 0)
#pragma unroll
    for (int r = 0; r < ROWS_PER_THREAD; ++r) {
      RowIndex at = q_tile.at(p, fragment_row(r));
      if (q_tile.has_row(fragment_row(r))) p.lse[at.qo_token * p.lse_token + at.qo_head * p.lse_head] = lse[r];
    }
}

// Stores output rows without an output transform. `staging`: the warp's staging area, if O has shared memory.
inline void store_o(const KernelParams& p, const Sm90Params& w, const Variant& variant, const OutputFragment& o,
                    const SoftmaxState& softmax, float unit, const QTile& q_tile, int warp, unsigned staging) {
  if constexpr (STORE_FROM_REGISTERS)
    store_o_from_registers(p, variant, o, softmax, unit, q_tile);
  else if constexpr (OUTPUTS_STAGED)
    store_o_staged(p, w, variant, o, softmax, unit, q_tile, warp, staging);
  else
    store_untransformed(p, variant, o, softmax, unit, q_tile, staging);
}
