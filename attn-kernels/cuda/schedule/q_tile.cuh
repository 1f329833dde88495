// What a CTA works on: a block of packed query rows of one request and KV head.
#pragma once
#include "memory/address.cuh"

struct QueryBlock {
  Request request;
  int kv_head;
  int first_row;  // packed
  int rows;       // that exist, at most TILE_ROWS

  // `item`: a work item or a merge.
  template <class Item>
  QueryBlock(const Item& item, int kv_head)
      : request(request_of(item)), kv_head(kv_head), first_row(item.first_row), rows(min(item.rows, TILE_ROWS)) {}
  // Whose rows are not those of a tile.
  QueryBlock(const MixedMerge& merge, int kv_head)
      : request(request_of(merge)), kv_head(kv_head), first_row(merge.first_row), rows(merge.rows) {}

  // Index word of a row of the block. It may lie past the last one: hooks may be asked for it, nothing is stored for it.
  RowIndex at(const KernelParams& p, int row) const {
    return row_index(p, request, kv_head, first_row + (SHARED_ROWS ? existing(row) : row));
  }
  bool has(int row) const { return row < rows; }
  // Rows past the last one repeat it.
  int existing(int row) const { return min(row, rows - 1); }

  // Its rows as bounds, for questions about whole tiles; or some of them.
  QueryTile bounds(const KernelParams& p) const { return bounds(p, 0, rows); }
  QueryTile bounds(const KernelParams& p, int begin, int end) const {
    RowIndex first = at(p, begin), last = at(p, end - 1);
    // Rows of several queries may have every head of the group among them.
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

// The logits of a block's rows against the keys from `first` to `last`.
inline Tile tile_against(const QueryTile& rows, const Request& request, int first, int last) {
  Tile tile;
  static_cast<QueryTile&>(tile) = rows;
  tile.kv_pos_min = first;
  tile.kv_pos_max = last;
  tile.kv_token_min = request.kv_begin + first;
  tile.kv_token_max = request.kv_begin + last;
  return tile;
}

// CTAs start in the order of their linear index, and the host sorts items by length, longest first. Going through all items
// for one head after the other would end with the last head's longest items alone on the chip; so heads take turns within
// an item, as many of them as leave their keys and values in the L2 cache: so many unless the launch says it.
constexpr unsigned HEADS_AT_ONCE = 4;

struct CtaPlace {
  int item;
  int kv_head;
};

// Of the CTA with this number, of so many items for so many heads.
inline CtaPlace cta_place(unsigned linear, unsigned items, unsigned kv_heads, unsigned at_once = HEADS_AT_ONCE) {
  unsigned first_head = linear / (at_once * items) * at_once;
  unsigned heads = min(kv_heads - first_head, at_once);
  unsigned within = linear - first_head * items;
  return {static_cast<int>(within / heads), static_cast<int>(first_head + within % heads)};
}
