// Writes the work list once cuts and splits are counted: items, workers and merges in any order, and zeros in unused
// entries.
#pragma once
#include "planner/line_items.cuh"
#include "planner/status.cuh"

// The tiles of a flat list, whose partial states are `tile_rows` rows apart.
struct FlatTiles {
  const PlanParams& p;
  const PlannerScratch& memory;

  unsigned align() const { return p.kv_align.divisor; }
  WorkItem tile(unsigned number) const { return load_item(memory.tiles + ITEM_WORDS * number); }
  void set_states(LineItem& made) const {
    if (made.cut_tile < 0) return;
    made.item.partial = (made.cuts + made.cut_tile) * static_cast<int>(p.tile_rows.divisor);
    made.item.merge = made.cut_tile;
  }
  void store(int index, const LineItem& made) const { store_item(p.items + ITEM_WORDS * index, made.item); }
};

class WorkListWriter {
  const PlanParams& p_;
  const PlannerScratch& memory_;
  int tiles_;
  SplitCounts splits_;

  void write_merge(int merge) const {
    int4* to = p_.merges + 2 * merge;
    to[0] = to[1] = make_int4(0, 0, 0, 0);
    if (merge >= splits_.cut_tiles) return;
    int cut = memory_.first_splits[merge], count = memory_.first_splits[merge + 1] - cut + 1;
    WorkItem tile = load_item(memory_.tiles + ITEM_WORDS * memory_.splits[cut].tile);
    to[0] = make_int4(tile.request, tile.first_row, tile.rows, (cut + merge) * static_cast<int>(p_.tile_rows.divisor));
    to[1] = make_int4(count, tile.qo_token, tile.qo_len, tile.kv_len);
  }

 public:
  WorkListWriter(const PlanParams& p, const PlannerScratch& memory, int tiles, SplitCounts splits)
      : p_(p), memory_(memory), tiles_(tiles), splits_(splits) {}

  // Each list starts at the warp after those that the previous list keeps busy.
  template <class Cta>
  void write(const Cta& cta) const {
    FlatTiles flat = {p_, memory_};
    LineItems<FlatTiles> items(p_, memory_, flat, splits_.in_tiles);
    int workers = static_cast<int>(p_.max_workers), tile_warps = (tiles_ + 31) / 32,
        tile_and_worker_warps = tile_warps + (workers + 31) / 32;
    cta.each(0, tiles_, [&](int tile) { items.write_first_item(tile); });
    cta.each(0, workers, [&](int worker) { items.write_worker(worker); }, tile_warps);
    cta.each(0, p_.capacity_merges, [&](int merge) { write_merge(merge); }, tile_and_worker_warps);
    clear_items(cta, p_, tiles_ + splits_.in_tiles, p_.capacity_items);
  }
};
