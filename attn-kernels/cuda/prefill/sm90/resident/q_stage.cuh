// The Q stages of the kernel whose keys stay in shared memory. Q tiles have the rows of a warpgroup; the CTA numbers
// them through all of its work items, and the warpgroups take them in turn. A warpgroup has stages of its own, so that
// it takes part in every phase of their barriers, and waits for no other warpgroup.
#pragma once
#include "prefill/sm90/smem_tiles.cuh"

constexpr int WARPGROUPS = WARPS / 4, WARPGROUP_ROWS = 64;
static_assert(Q_STAGES % WARPGROUPS == 0, "a Q stage belongs to one warpgroup");

// Rows of a Q tile. TMA loads the tokens that fit a warpgroup whole: 12 of 5 heads, where 4 rows are left over.
inline int q_tile_rows(const KernelParams& p, const Sm90Params& w) {
  return w.use_tma_q ? divide(WARPGROUP_ROWS, p.group) * p.group.divisor : WARPGROUP_ROWS;
}

// Q tiles of `tile_rows` rows of a work item.
inline int q_tiles(const WorkItem& item, int tile_rows) { return (item.rows + tile_rows - 1) / tile_rows; }

// The warpgroup that takes a Q tile.
inline int warpgroup_of(int q_index) { return q_index % WARPGROUPS; }

// The Q tile of an item that begins `first` rows on, as the rows of its warpgroup among the TILE_ROWS of the CTA: rows
// before them do not exist, and have no coordinates.
inline WorkItem warpgroup_item(WorkItem item, int first, int tile_rows, int warpgroup) {
  int before = warpgroup * WARPGROUP_ROWS;
  item.first_row += first - before;
  item.rows = min(item.rows - first, tile_rows) + before;
  return item;
}

// The rows of all warpgroups among which the stage lies, in those of its own.
inline SmemQ rows_of_stage(const SmemTiles& tiles, int stage) { return tiles.q_stage(stage / WARPGROUPS); }
