// Q tile: the packed query rows (PackGQA) of one request and KV head that a CTA or a cluster works on, and the order in
// which they take work tiles.
#pragma once
#include "memory/address.cuh"

// Rows of a work item.
constexpr int ITEM_ROWS = CLUSTER_CTAS * TILE_ROWS;

struct QTile {
  Request request;
  int kv_head;
  int first_row;  // packed
  int rows;       // that exist, at most ITEM_ROWS

  QTile(const WorkItem& item, int kv_head)
      : request(request_of(item)), kv_head(kv_head), first_row(item.first_row), rows(min(item.rows, ITEM_ROWS)) {}
  // The rows of a mixed launch's merge are not bounded by a tile.
  QTile(const MergeItem& merge, int kv_head)
      : request(request_of(merge)),
        kv_head(kv_head),
        first_row(merge.first_row),
        rows(MIXED ? merge.rows : min(merge.rows, ITEM_ROWS)) {}

  // The rows of a CTA of the cluster, of which there may be none.
  QTile of_cta(unsigned rank) const {
    if constexpr (CLUSTER_CTAS == 1) return *this;
    QTile own = *this;
    int first = static_cast<int>(rank) * TILE_ROWS;
    own.first_row += min(first, rows - 1);
    own.rows = max(0, min(rows - first, TILE_ROWS));
    return own;
  }

  // Coordinates of a row. A row past the last one is allowed: hooks may be called for it, nothing is stored for it.
  RowIndex at(const KernelParams& p, int row) const {
    return row_index(p, request, kv_head, first_row + (SHARED_ROWS ? clamp_row(row) : row));
  }
  // Rows from `row` on, one after the other. They are not clamped, so not where requests share rows.
  PackedRows rows_from(const KernelParams& p, int row) const { return PackedRows(p, first_row + row); }
  RowIndex at(const KernelParams& p, const PackedRows& rows) const {
    return row_index(p, request, kv_head, rows.row, rows.query);
  }
  bool has_row(int row) const { return row < rows; }
  // Clamps to the last row.
  int clamp_row(int row) const { return min(row, (CLUSTER_CTAS > 1 ? max(rows, 1) : rows) - 1); }

  // Bounds of all rows, or of the rows from `begin` to `end`, as tile_class takes them.
  QueryTile bounds(const KernelParams& p) const { return bounds(p, 0, CLUSTER_CTAS > 1 ? max(rows, 1) : rows); }
  QueryTile bounds(const KernelParams& p, int begin, int end) const {
    RowIndex first = at(p, begin), last = at(p, end - 1);
    // rows of several queries can include every head of the group
    bool one_query = first.qo_row == last.qo_row;
    int group = p.group.divisor;
    QueryTile tile;
    tile.batch = request.batch;
    tile.qo_row_min = first.qo_row;
    tile.qo_row_max = last.qo_row;
    tile.qo_pos_min = first.qo_pos;
    tile.qo_pos_max = last.qo_pos;
    tile.qo_token_min = first.qo_token;
    tile.qo_token_max = last.qo_token;
    tile.qo_head_min = one_query ? first.qo_head : kv_head * group;
    tile.qo_head_max = one_query ? last.qo_head : kv_head * group + group - 1;
    tile.kv_head_min = tile.kv_head_max = kv_head;
    tile.qo_len = request.qo_len;
    tile.kv_len = request.kv_len;
    return tile;
  }
};

// The host orders items, longest first (a mixed launch: by request). Heads alternate within an item, so that no head's
// longest items run last alone: as many as the launch says (`HeadOrder`), or this many.
constexpr unsigned HEADS_PER_GROUP = 4;

struct WorkTileIndex {
  int item;
  int kv_head;
};

// The work tile of CTA `linear`, of `items` items for each of `kv_heads` heads.
inline WorkTileIndex work_tile_index(unsigned linear, unsigned items, unsigned kv_heads,
                                     unsigned at_once = HEADS_PER_GROUP) {
  unsigned first_head = linear / (at_once * items) * at_once;
  unsigned heads = min(kv_heads - first_head, at_once);
  unsigned within = linear - first_head * items;
  return {static_cast<int>(within / heads), static_cast<int>(first_head + within % heads)};
}
