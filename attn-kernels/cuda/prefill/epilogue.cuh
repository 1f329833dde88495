// The end of a block of queries: from accumulators to output rows, or to a partial state.
//
// Accumulators scatter a row over four lanes. Final rows go through shared memory, so that memory sees whole rows and
// output_transform a row over lanes. A warp (those that have the same rows, together) uses its own share of the tiles for that, which holds
// eight rows of f32 or all of its rows in 16 bits.
#pragma once
#include "merge/partial.cuh"
#include "softmax/online_softmax.cuh"

constexpr int ROWS_PER_WARP = 16 * ROW_BLOCKS;
constexpr int STAGED_ROW_BYTES = (VALUE_DIM + 63) / 64 * 128;  // of 16 bits: whole groups of eight chunks, which are permuted
constexpr int STAGING_BYTES = ROWS_PER_WARP * STAGED_ROW_BYTES;

// For the warps that have the same rows.
inline void sync_row_warps() {
  if constexpr (COLUMN_WARPS == 1)
    __syncwarp();
  else
    sync_some(1 + threadIdx.x / (32 * COLUMN_WARPS), 32 * COLUMN_WARPS);
}

// Eight rows of f32 in staging, in 16-byte chunks permuted by the row.
inline unsigned staged_sum(unsigned staging, int row, int chunk) {
  return staging + row * 2 * STAGED_ROW_BYTES + ((chunk ^ (row & 7)) << 4);
}
// All rows in 16 bits, in panels of 64 elements, permuted alike.
inline unsigned staged(unsigned staging, int row, int chunk) {
  return staging + chunk / 8 * (ROWS_PER_WARP * 128) + row * 128 + ((chunk % 8 ^ (row & 7)) << 4);
}

// In all of these, `unit` is what sums of weighted values are multiplied by.
inline void write_partial(const KernelParams& p, const Outputs& o, const RowStates& rows, float unit, int slot, const QueryBlock& block) {
#pragma unroll
  for (int r = 0; r < ROWS_PER_THREAD; ++r) {
    if (MIXED && !block.has(fragment_row(r))) break;  // what follows is another tile's
    long long index = partial_index(p, slot, block.kv_head, fragment_row(r));
    float* sums = p.partial_o + index * VALUE_DIM + first_column() + fragment_column();
#pragma unroll
    for (int d = 0; d < COLUMNS / 8; ++d)
      *reinterpret_cast<float2*>(sums + d * 8) = make_float2(o[r / 2][d][r % 2 * 2] * unit, o[r / 2][d][r % 2 * 2 + 1] * unit);
    if (threadIdx.x % 4 == 0 && first_column() == 0) p.partial_md[index] = make_float2(rows.max[r], rows.sum[r]);
  }
}

// Rows that the warp has staged, 16 bytes a lane: of each what this warp has of it.
inline void write_staged(const KernelParams& p, const QueryBlock& block, unsigned staging) {
  int lane = threadIdx.x % 32;
  using Piece = RowOf<COLUMNS>;
  constexpr int LANES = Piece::LANES_OF_ROW;
  static_assert(Piece::VALUES_OF_LANE == 8, "a store a lane");
#pragma unroll 2
  for (int i = lane / LANES; i < ROWS_PER_WARP; i += 32 / LANES) {
    int row = threadIdx.x / (32 * COLUMN_WARPS) * ROWS_PER_WARP + i;
    if (!block.has(row) || !Piece::holds()) break;
    QoElem* to = static_cast<QoElem*>(p.o.data) + row_offset(p.o, block.at(p, row)) + first_column();
    store_16(to + Piece::first(), load_shared_16(staged(staging, i, first_column() / 8 + Piece::lane())));
  }
}

// Final rows without an output transform: rounded in registers, stored 16 bytes a lane.
inline void write_plain(const KernelParams& p, const Variant& variant, const Outputs& o, const RowStates& rows, float unit,
                        const QueryBlock& block, unsigned staging) {
  int lane = threadIdx.x % 32;
#pragma unroll
  for (int r = 0; r < ROWS_PER_THREAD; ++r) {
    RowIndex at = block.at(p, fragment_row(r));
    FinishedRow finished = finish_row(p, variant, rows.max[r], rows.sum[r], at);
    if (p.lse && lane % 4 == 0 && first_column() == 0 && block.has(fragment_row(r)))
      p.lse[at.qo_token * p.lse_token + at.qo_head * p.lse_head] = finished.state.lse;
    float scale = finished.scale * unit;
#pragma unroll
    for (int d = 0; d < COLUMNS / 8; ++d)
      store_shared_4(staged(staging, r * 8 + lane / 4, first_column() / 8 + d) + lane % 4 * 4,
                     pack2<QoElem>(o[r / 2][d][r % 2 * 2] * scale, o[r / 2][d][r % 2 * 2 + 1] * scale));
  }
  __syncwarp();
  write_staged(p, block, staging);
}

// Final rows through the output transform, eight at a time: row r of each of the warp's eight quads.
inline void write_transformed(const KernelParams& p, const Variant& variant, const Outputs& o, const RowStates& rows, float unit,
                              const QueryBlock& block, unsigned staging) {
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
    int first_row = fragment_row(r) - lane / 4, rows_here = min(block.rows - first_row, 8);
    if (rows_here <= 0) break;  // no row of the warp from here on
#pragma unroll 1
    for (int first = threadIdx.x / 32 % COLUMN_WARPS * (32 / ROW_LANES); first < rows_here; first += COLUMN_WARPS * 32 / ROW_LANES) {
      // Lanes of rows past the last one repeat it: row hooks shuffle, so the warp stays together.
      int i = min(first + lane / ROW_LANES, rows_here - 1);
      PartialRow state;
      state.row_max = __shfl_sync(ALL_LANES, rows.max[r], 4 * i);
      state.denominator = __shfl_sync(ALL_LANES, rows.sum[r], 4 * i);
#pragma unroll
      for (int half = 0; half < LANE_VALUES / 4; ++half) {
        uint4 v = {};
        if (Values::holds()) v = load_shared_16(staged_sum(staging, i, LANE_VALUES / 4 * Values::lane() + half));
        state.sum.x[4 * half] = __uint_as_float(v.x);
        state.sum.x[4 * half + 1] = __uint_as_float(v.y);
        state.sum.x[4 * half + 2] = __uint_as_float(v.z);
        state.sum.x[4 * half + 3] = __uint_as_float(v.w);
      }
      write_output(p, variant, state, block.at(p, first_row + i), first + lane / ROW_LANES < rows_here);
    }
    sync_row_warps();
  }
}

// `place`: TILE_ROWS * STAGED_ROW_BYTES of shared memory that nobody else uses meanwhile. `write`: how final rows without a transform are written, given a unit and
// the warp's share of the place.
template <class Write>
inline void write_rows(const KernelParams& p, const Variant& variant, const Outputs& o, RowStates& rows, const QueryBlock& block,
                       int partial, unsigned place, Write write) {
  // Asked again, rather than kept: registers are scarce before.
  float logits = natural_unit(logit_unit(p, block.kv_head)), unit = value_unit(p, block.kv_head);
#pragma unroll
  for (int r = 0; r < ROWS_PER_THREAD; ++r) {
    rows.sum[r] += __shfl_xor_sync(ALL_LANES, rows.sum[r], 1);
    rows.sum[r] += __shfl_xor_sync(ALL_LANES, rows.sum[r], 2);
    rows.max[r] = Variant::PLAIN ? 0.f : rows.max[r] * logits;
    if (MAX_MAY_BE_FIXED && rows.sum[r] < LEAST_SUM) rows.max[r] = NO_LOGIT;
  }
  unsigned staging = place + threadIdx.x / (32 * COLUMN_WARPS) * STAGING_BYTES;
  if (partial >= 0)
    write_partial(p, o, rows, unit, partial, block);
  else if constexpr (Variant::HAS_OUTPUT_TRANSFORM)
    write_transformed(p, variant, o, rows, unit, block, staging);
  else
    write(unit, staging);
}
