// Epilogue of prefill: from the accumulators of a Q tile to output rows, or to split-KV partials.
//
// Accumulators hold a row in four lanes. Output rows are staged in shared memory, so that global stores cover whole
// rows and output_transform gets a row spread over lanes. Each warp (with COLUMN_WARPS > 1: the warps that share rows)
// has its own staging area, which holds eight rows of f32 or all of its rows in 16 bits.
#pragma once
#include "merge/partial.cuh"
#include "softmax/online_softmax.cuh"

constexpr int ROWS_PER_WARP = 16 * ROW_BLOCKS;
// Whether output rows are staged in f32, since a hook or a conversion takes them so.
constexpr bool OUTPUT_FROM_F32 = Variant::HAS_OUTPUT_TRANSFORM || OUTPUT_HAS_OWN_TYPE;
// A row in 16 bits: whole groups of eight 16-byte chunks, for the swizzle.
constexpr int STAGED_ROW_BYTES = (HEAD_DIM_VO + 63) / 64 * 128;
constexpr int STAGING_BYTES = ROWS_PER_WARP * STAGED_ROW_BYTES;

// Barrier of the warps that share rows; on sm_90 after those of the pipeline.
inline void sync_row_warps() {
  if constexpr (COLUMN_WARPS == 1)
    __syncwarp();
  else
    named_barrier_sync((SM90_PREFILL ? 12 : 1) + row_warp(), 32 * COLUMN_WARPS);
}

// Address of a 16-byte chunk of one of eight f32 rows in staging, swizzled by the row.
inline unsigned staged_sum(unsigned staging, int row, int chunk) {
  return staging + row * 2 * STAGED_ROW_BYTES + ((chunk ^ (row & 7)) << 4);
}
// Address of a 16-byte chunk of a 16-bit row in staging: panels of 64 elements, swizzled by the row.
inline unsigned staged(unsigned staging, int row, int chunk) {
  return staging + chunk / 8 * (ROWS_PER_WARP * 128) + row * 128 + ((chunk % 8 ^ (row & 7)) << 4);
}

// In all functions below, `unit` is the factor (scale of V) that O is multiplied by.
inline void store_partials(const KernelParams& p, const OutputFragment& o, const SoftmaxState& softmax, float unit,
                           int partial, const QTile& q_tile) {
#pragma unroll
  for (int r = 0; r < ROWS_PER_THREAD; ++r) {
    if (MIXED && !q_tile.has_row(fragment_row(r))) break;  // later rows of partials belong to another tile
    long long index = partial_index(p, partial + fragment_row(r), q_tile.kv_head);
    float* sums = p.partial_o + index * HEAD_DIM_VO + first_column() + fragment_column();
#pragma unroll
    for (int d = 0; d < COLUMNS / 8; ++d)
      *reinterpret_cast<float2*>(sums + d * 8) =
          make_float2(o[r / 2][d][r % 2 * 2] * unit, o[r / 2][d][r % 2 * 2 + 1] * unit);
    if (threadIdx.x % 4 == 0 && first_column() == 0)
      p.partial_md[index] = make_float2(softmax.row_max[r], softmax.row_sum[r]);
  }
}

// Stores the staged rows, 16 bytes per lane: this warp's columns of each row.
inline void store_staged(const KernelParams& p, const QTile& q_tile, unsigned staging) {
  int lane = threadIdx.x % 32;
  using WarpColumns = RowOf<COLUMNS>;
  constexpr int LANES = WarpColumns::LANES_OF_ROW;
  static_assert(WarpColumns::VALUES_OF_LANE == 8, "one 16-byte store per lane");
#pragma unroll 2
  for (int i = lane / LANES; i < ROWS_PER_WARP; i += 32 / LANES) {
    int row = row_warp() * ROWS_PER_WARP + i;
    if (!q_tile.has_row(row) || !WarpColumns::holds()) break;
    QoElem* to = static_cast<QoElem*>(p.o.data) + row_offset(p.o, q_tile.at(p, row)) + first_column();
    store_16(to + WarpColumns::first(), load_shared_16(staged(staging, i, first_column() / 8 + WarpColumns::lane())));
  }
}

// Output rows without an output transform: rounded in registers, staged, and stored 16 bytes per lane.
inline void store_untransformed(const KernelParams& p, const Variant& variant, const OutputFragment& o,
                                const SoftmaxState& softmax, float unit, const QTile& q_tile, unsigned staging) {
  int lane = threadIdx.x % 32;
#pragma unroll
  for (int r = 0; r < ROWS_PER_THREAD; ++r) {
    RowIndex at = q_tile.at(p, fragment_row(r));
    FinalizedRow finalized = finalize_row(p, variant, softmax.row_max[r], softmax.row_sum[r], at);
    if (p.lse && lane % 4 == 0 && first_column() == 0 && q_tile.has_row(fragment_row(r)))
      p.lse[at.qo_token * p.lse_token + at.qo_head * p.lse_head] = finalized.state.lse;
    float scale = finalized.scale * unit;
#pragma unroll
    for (int d = 0; d < COLUMNS / 8; ++d)
      store_shared_4(staged(staging, r * 8 + lane / 4, first_column() / 8 + d) + lane % 4 * 4,
                     pack2<QoElem>(o[r / 2][d][r % 2 * 2] * scale, o[r / 2][d][r % 2 * 2 + 1] * scale));
  }
  __syncwarp();
  store_staged(p, q_tile, staging);
}

// Output rows with an output transform, eight at a time: row r of each of the warp's eight quads.
inline void store_transformed(const KernelParams& p, const Variant& variant, const OutputFragment& o,
                              const SoftmaxState& softmax, float unit, const QTile& q_tile, unsigned staging) {
  int lane = threadIdx.x % 32;
#pragma unroll
  for (int r = 0; r < ROWS_PER_THREAD; ++r) {
#pragma unroll
    for (int d = 0; d < COLUMNS / 8; ++d) {
      unsigned to = staged_sum(staging, lane / 4, first_column() / 4 + 2 * d + lane % 4 / 2) + lane % 2 * 8;
      store_shared_4(to, __float_as_uint(o[r / 2][d][r % 2 * 2] * unit));
      store_shared_4(to + 4, __float_as_uint(o[r / 2][d][r % 2 * 2 + 1] * unit));
    }
    sync_row_warps();
    int first_row = fragment_row(r) - lane / 4, rows_here = min(q_tile.rows - first_row, 8);
    if (rows_here <= 0) break;  // the warp has no more rows
#pragma unroll 1
    for (int first = column_warp() * (32 / ROW_LANES); first < rows_here;
         first += COLUMN_WARPS * 32 / ROW_LANES) {
      // lanes past the last row repeat it: row hooks shuffle, so that the warp must stay converged
      int i = min(first + lane / ROW_LANES, rows_here - 1);
      PartialRow state;
      state.row_max = __shfl_sync(ALL_LANES, softmax.row_max[r], 4 * i);
      state.row_sum = __shfl_sync(ALL_LANES, softmax.row_sum[r], 4 * i);
#pragma unroll
      for (int half = 0; half < LANE_VALUES / 4; ++half) {
        uint4 v = {};
        if (Values::holds()) v = load_shared_16(staged_sum(staging, i, LANE_VALUES / 4 * Values::lane() + half));
        state.o.set_four(4 * half, floats_of(v));
      }
      write_output(p, variant, state, q_tile.at(p, first_row + i), first + lane / ROW_LANES < rows_here);
    }
    sync_row_warps();
  }
}

// The epilogue. `staging_base`: TILE_ROWS * STAGED_ROW_BYTES of shared memory that is free. `write(unit, staging)`:
// stores output rows without an output transform; `staging` is the warp's area.
template <class Write>
inline void store_rows(const KernelParams& p, const Variant& variant, const OutputFragment& o, SoftmaxState& softmax,
                       const QTile& q_tile, int partial, unsigned staging_base, Write write) {
  // read again instead of kept in registers, which are scarce in the mainloop
  float logits = score_scale(qk_scale(p, q_tile.kv_head)), unit = output_scale(p, q_tile.kv_head);
#pragma unroll
  for (int r = 0; r < ROWS_PER_THREAD; ++r) {
    add_quad(softmax.row_sum[r]);
    softmax.row_max[r] = Variant::PLAIN ? 0.f : softmax.row_max[r] * logits;
    if (STATIC_MAX && softmax.row_sum[r] < MIN_ROW_SUM) softmax.row_max[r] = NEG_INF;
  }
  unsigned staging = staging_base + row_warp() * STAGING_BYTES;
  if (partial >= 0)
    store_partials(p, o, softmax, unit, partial, q_tile);
  else if constexpr (OUTPUT_FROM_F32)
    store_transformed(p, variant, o, softmax, unit, q_tile, staging);
  else
    write(unit, staging);
}
