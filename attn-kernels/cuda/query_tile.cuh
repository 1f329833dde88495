// What a prefill CTA works on: a tile of packed query rows of one request and KV head.
#pragma once
#include "address.cuh"

struct QueryTile {
  Request request;
  int kv_head;
  int first_row;  // packed
  int last_row;   // the last one that exists, at most first_row + TILE_ROWS - 1

  // Index word of a row of the tile. It may lie past the last one: hooks may be asked for it, nothing is stored for it.
  RowIndex at(const KernelParams& p, int row) const { return row_index(p, request, kv_head, first_row + row); }
  bool has(int row) const { return first_row + row <= last_row; }
};

inline QueryTile query_tile(const KernelParams& p, const WorkItem& item, int kv_head) {
  Request request = load_request(p, item.request);
  int first_row = item.qo_tile * TILE_ROWS;
  return {request, kv_head, first_row, min(first_row + TILE_ROWS, packed_rows(p, request)) - 1};
}

// CTAs start in the order of their linear index, and the host sorts items by length, longest first. Going through all items
// for one head after the other would end with the last head's longest items alone on the chip; so heads take turns within
// an item, as many of them as leave their keys and values in the L2 cache.
constexpr int HEADS_AT_ONCE = 4;

struct CtaPlace {
  int item;
  int kv_head;
};

inline CtaPlace cta_place() {
  unsigned items = gridDim.x;
  unsigned linear = blockIdx.y * items + blockIdx.x;
  unsigned first_head = linear / (HEADS_AT_ONCE * items) * HEADS_AT_ONCE;
  unsigned heads = min(gridDim.y - first_head, static_cast<unsigned>(HEADS_AT_ONCE));
  unsigned within = linear - first_head * items;
  return {static_cast<int>(within / heads), static_cast<int>(first_head + within % heads)};
}
