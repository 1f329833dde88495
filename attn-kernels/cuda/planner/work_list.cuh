// Writes the work list once cuts and splits are counted: items, workers and merges in any order, and zeros in unused
// entries.
#pragma once
#include "planner/status.cuh"
#include "planner/worker_cuts.cuh"

class WorkListWriter {
  const PlanParams& p_;
  const PlannerScratch& memory_;
  int tiles_;
  SplitCounts splits_;

  // The KV split of a tile from block `begin` to before `end`, counted from its first visible block. `state`:
  // the number of partial states before that of the split; -1: the split writes the output.
  WorkItem kv_split(WorkItem tile, unsigned begin, unsigned end, int state, int merge) const {
    unsigned first = tile.kv_begin, keys = tile.kv_len, align = p_.kv_align.divisor;
    tile.kv_begin = begin < end ? (first + begin) * align : 0;
    tile.kv_end = begin < end ? min((first + end) * align, keys) : 0;
    tile.partial = state < 0 ? -1 : state * static_cast<int>(p_.tile_rows.divisor);
    tile.merge = merge;
    return tile;
  }

  // The item at the start of tile `number`. `cuts`: the number of cuts within the tiles before it.
  WorkItem first_item_of_tile(unsigned number, int cuts) const {
    WorkItem tile = load_item(memory_.tiles + ITEM_WORDS * number);
    TileSplit next = memory_.splits[cuts];
    if (next.tile != number) return kv_split(tile, 0, tile.kv_end - tile.kv_begin, -1, -1);
    return kv_split(tile, 0, next.block, cuts + next.merge, next.merge);
  }

  // The item that begins at a cut within a tile.
  WorkItem item_after_cut(int cut) const {
    TileSplit own = memory_.splits[cut], next = memory_.splits[cut + 1];
    WorkItem tile = load_item(memory_.tiles + ITEM_WORDS * own.tile);
    unsigned end = next.tile == own.tile ? next.block : tile.kv_end - tile.kv_begin;
    return kv_split(tile, own.block, end, cut + own.merge + 1, own.merge);
  }

  // The number of cuts within the tiles before `tile`.
  int cuts_before_tile(unsigned tile) const {
    return partition_point(splits_.in_tiles, [&](unsigned cut) { return memory_.splits[cut].tile < tile; });
  }

  void write_first_item(int tile) const {
    int cuts = cuts_before_tile(tile);
    store_item(p_.items + ITEM_WORDS * (tile + cuts), first_item_of_tile(tile, cuts));
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
      if (first < end) item = cut.block == 0 ? first_item_of_tile(cut.tile, cuts) : item_after_cut(cuts - 1);
      if (first < end && cut.block > 0) store_item(p_.items + ITEM_WORDS * first, item);
    }
    to[0] = make_int4(first, end, 0, 0);
    store_item(to + 1, item);
  }

  void write_merge(int merge) const {
    int4* to = p_.merges + MERGE_WORDS * merge;
    to[0] = to[1] = make_int4(0, 0, 0, 0);
    if (merge >= splits_.merges) return;
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
    int workers = static_cast<int>(p_.max_workers), tile_warps = (tiles_ + 31) / 32,
        tile_and_worker_warps = tile_warps + (workers + 31) / 32;
    auto from_warp = [&](int warp) { return (cta.thread() + Cta::THREADS - warp * 32 % Cta::THREADS) % Cta::THREADS; };
#pragma unroll 1
    for (int tile = cta.thread(); tile < tiles_; tile += Cta::THREADS) write_first_item(tile);
#pragma unroll 1
    for (int worker = from_warp(tile_warps); worker < workers; worker += Cta::THREADS) write_worker(worker);
#pragma unroll 1
    for (int merge = from_warp(tile_and_worker_warps); merge < p_.capacity_merges; merge += Cta::THREADS)
      write_merge(merge);
    clear_entries<ITEM_WORDS>(cta, p_.items, tiles_ + splits_.in_tiles, p_.capacity_items);
  }
};
