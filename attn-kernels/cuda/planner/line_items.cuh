// Writes the items and workers of a line of tiles that stream-K has cut, in any order.
#pragma once
#include "planner/worker_cuts.cuh"

// An item of a tile on the line.
struct LineItem {
  WorkItem item;
  int cuts;      // within tiles, up to the begin of the item
  int cut_tile;  // the number of its tile among those that are cut; -1: the tile is whole
};

// The number of cuts within the tiles before `tile`, of `in_tiles` cuts.
inline int cuts_before_tile(const LineCuts& memory, int in_tiles, unsigned tile) {
  return partition_point(in_tiles, [&](unsigned cut) { return memory.splits[cut].tile < tile; });
}

// `Tiles` has `tile(number)`, whose KV range counts its visible blocks of `align()` keys; `set_states`, which sets
// where the partial states of an item are, if its tile is cut; and `store`, which writes an item.
template <class Tiles>
class LineItems {
  const PlanParams& p_;
  const LineCuts& memory_;
  const Tiles& tiles_;
  int in_tiles_;  // cuts within tiles

  // The KV split of a tile from block `begin` to before `end`, counted from its first visible block.
  LineItem kv_split(WorkItem tile, unsigned begin, unsigned end, int cuts, int cut_tile) const {
    unsigned first = tile.kv_begin, keys = tile.kv_len, align = tiles_.align();
    tile.kv_begin = begin < end ? (first + begin) * align : 0;
    tile.kv_end = begin < end ? min((first + end) * align, keys) : 0;
    LineItem made = {tile, cuts, cut_tile};
    tiles_.set_states(made);
    return made;
  }

  // The item at the start of tile `number`. `cuts`: the number of cuts within the tiles before it.
  LineItem first_item_of_tile(unsigned number, int cuts) const {
    WorkItem tile = tiles_.tile(number);
    TileSplit next = memory_.splits[cuts];
    if (next.tile != number) return kv_split(tile, 0, tile.kv_end - tile.kv_begin, cuts, -1);
    return kv_split(tile, 0, next.block, cuts, next.merge);
  }

  // The item that begins at a cut within a tile.
  LineItem item_after_cut(int cut) const {
    TileSplit own = memory_.splits[cut], next = memory_.splits[cut + 1];
    WorkItem tile = tiles_.tile(own.tile);
    unsigned end = next.tile == own.tile ? next.block : tile.kv_end - tile.kv_begin;
    return kv_split(tile, own.block, end, cut + 1, own.merge);
  }

 public:
  LineItems(const PlanParams& p, const LineCuts& memory, const Tiles& tiles, int in_tiles)
      : p_(p), memory_(memory), tiles_(tiles), in_tiles_(in_tiles) {}

  void write_first_item(int tile) const {
    int cuts = cuts_before_tile(memory_, in_tiles_, tile);
    tiles_.store(tile + cuts, first_item_of_tile(tile, cuts));
  }

  // Writes a worker and, if its cut is within a tile, the item at the cut. That item is the first of this worker only,
  // so no other thread writes it.
  void write_worker(unsigned worker) const {
    int4* to = p_.workers + START_WORDS * worker;
    WorkItem item = {};
    int first = 0, end = 0;
    if (worker < *memory_.used_workers) {
      first = memory_.first_items[worker], end = memory_.first_items[worker + 1];
      Cut cut = memory_.cuts[worker];
      int cuts = first - static_cast<int>(cut.tile);
      if (first < end) {
        LineItem made = cut.block == 0 ? first_item_of_tile(cut.tile, cuts) : item_after_cut(cuts - 1);
        if (cut.block > 0) tiles_.store(first, made);
        item = made.item;
      }
    }
    to[0] = make_int4(first, end, 0, 0);
    store_item(to + 1, item);
  }
};
