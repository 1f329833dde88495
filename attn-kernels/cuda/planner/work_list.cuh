// The list, once all is counted: items, workers and merges are written in any order, and zeros where there are none.
#pragma once
#include "planner/worker_cuts.cuh"

class ListWriter {
  const PlanParams& p_;
  const PlanMemory& memory_;
  int tiles_;
  Pieces pieces_;

  // A piece of a tile: blocks counted from the first that it sees.
  WorkItem piece(WorkItem tile, unsigned begin, unsigned end, int slot, int merge) const {
    unsigned first = tile.kv_begin, keys = tile.kv_len, align = p_.kv_align.divisor;
    tile.kv_begin = begin < end ? (first + begin) * align : 0;
    tile.kv_end = begin < end ? min((first + end) * align, keys) : 0;
    tile.partial = slot;
    tile.merge = merge;
    return tile;
  }

  // The item at the start of a tile, before which there are so many cuts within tiles.
  WorkItem opening(unsigned number, int cuts) const {
    WorkItem tile = load_item(memory_.tiles + 3 * number);
    Piece next = memory_.pieces[cuts];
    if (next.tile != number) return piece(tile, 0, tile.kv_end - tile.kv_begin, -1, -1);
    return piece(tile, 0, next.block, cuts + next.merge, next.merge);
  }

  // The item behind a cut within a tile.
  WorkItem behind(int cut) const {
    Piece own = memory_.pieces[cut], next = memory_.pieces[cut + 1];
    WorkItem tile = load_item(memory_.tiles + 3 * own.tile);
    unsigned end = next.tile == own.tile ? next.block : tile.kv_end - tile.kv_begin;
    return piece(tile, own.block, end, cut + own.merge + 1, own.merge);
  }

  // Cuts within the tiles before one.
  int cuts_before(unsigned tile) const {
    int begin = 0, end = pieces_.behind_cuts;
#pragma unroll 1
    while (begin < end) {
      int middle = (begin + end) / 2;
      if (memory_.pieces[middle].tile < tile) {
        begin = middle + 1;
      } else {
        end = middle;
      }
    }
    return begin;
  }

  void write_opening(int tile) const {
    int cuts = cuts_before(tile);
    store_item(p_.items + 3 * (tile + cuts), opening(tile, cuts));
  }

  // A worker, and the item behind its cut: that is the first of a worker, and of one alone.
  void write_worker(unsigned worker) const {
    int4* to = p_.workers + 4 * worker;
    WorkItem item = {};
    int first = 0, end = 0;
    if (worker < *memory_.used) {
      first = memory_.firsts[worker], end = memory_.firsts[worker + 1];
      Cut cut = memory_.cuts[worker];
      int cuts = first - static_cast<int>(cut.tile);
      if (first < end) item = cut.block == 0 ? opening(cut.tile, cuts) : behind(cuts - 1);
      if (first < end && cut.block > 0) store_item(p_.items + 3 * first, item);
    }
    to[0] = make_int4(first, end, 0, 0);
    store_item(to + 1, item);
  }

  void write_merge(int merge) const {
    int4* to = p_.merges + 2 * merge;
    to[0] = to[1] = make_int4(0, 0, 0, 0);
    if (merge >= pieces_.merges) return;
    int cut = memory_.first_pieces[merge], count = memory_.first_pieces[merge + 1] - cut + 1;
    WorkItem tile = load_item(memory_.tiles + 3 * memory_.pieces[cut].tile);
    to[0] = make_int4(tile.request, tile.first_row, tile.rows, cut + merge);
    to[1] = make_int4(count, tile.qo_token, tile.qo_len, tile.kv_len);
  }

 public:
  ListWriter(const PlanParams& p, const PlanMemory& memory, int tiles, Pieces pieces)
      : p_(p), memory_(memory), tiles_(tiles), pieces_(pieces) {}

  // Parts begin at warps that have not had one.
  template <class Cta>
  void write(const Cta& cta) const {
    int workers = static_cast<int>(p_.workers_most), behind_tiles = (tiles_ + 31) / 32, behind_workers = behind_tiles + (workers + 31) / 32;
    auto from_warp = [&](int warp) { return (cta.thread() + Cta::THREADS - warp * 32 % Cta::THREADS) % Cta::THREADS; };
#pragma unroll 1
    for (int tile = cta.thread(); tile < tiles_; tile += Cta::THREADS) write_opening(tile);
#pragma unroll 1
    for (int worker = from_warp(behind_tiles); worker < workers; worker += Cta::THREADS) write_worker(worker);
#pragma unroll 1
    for (int merge = from_warp(behind_workers); merge < p_.room_merges; merge += Cta::THREADS) write_merge(merge);
    int4* rest = p_.items + 3 * (tiles_ + pieces_.behind_cuts);
    int words = 3 * (p_.room_items - tiles_ - pieces_.behind_cuts);
#pragma unroll 1
    for (int word = cta.thread(); word < words; word += Cta::THREADS) rest[word] = make_int4(0, 0, 0, 0);
  }
};
