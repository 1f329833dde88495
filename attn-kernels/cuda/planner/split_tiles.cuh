// Splits each Q tile of a batch on its own: into equal splits where there are fewer tiles than workers
// (Schedule::LongestFirst), or at fixed multiples of the keys (Schedule::FixedSplit). The splits are those of
// attn-core/src/plan/kv_splits.rs.
#pragma once
#include "planner/kv_splits.cuh"
#include "planner/search.cuh"
#include "planner/visible.cuh"

// A request: its lengths, its first key token and its first Q tile.
struct SplitRequest {
  RequestLengths lens;
  int kv_token, first_tile;
};

// A Q tile: its visible KV blocks and its request.
struct SplitTile {
  BlockRange visible;
  int request;
};

// The items and merges before a tile.
struct TileStart {
  int item, merge;
};

// Scratch memory, in shared memory or in the workspace; `order` may be in shared memory while the rest is not.
// attn-kernels/src/launch/planner_scratch.rs computes its size.
struct SplitScratch {
  Cost* order;             // [power of two, at least the items] keys to sort items by; or where their costs begin
  SplitRequest* requests;  // [requests]
  TileStart* starts;       // [tiles], if any is cut
  SplitTile* tiles;        // [tiles]

  SplitScratch(void* shared, const PlanParams& p) {
    order = p.order ? p.order : static_cast<Cost*>(shared);
    void* behind = order + lang::next_power_of_two(static_cast<unsigned>(p.capacity_items));
    requests = static_cast<SplitRequest*>(p.scratch ? p.scratch : behind);
    tiles = reinterpret_cast<SplitTile*>(requests + p.capacity_requests);
    starts = reinterpret_cast<TileStart*>(tiles + p.capacity_items);
  }
};

template <class Cta, class Variant>
class TileSplitter {
  Cta& cta_;
  const PlanParams& p_;
  const Variant& variant_;
  SplitScratch memory_;
  int tiles_ = 0, items_ = 0, merges_ = 0;
  bool is_cut_ = false;   // whether a tile may have several items
  unsigned longest_ = 0;  // blocks of a tile
  unsigned most_ = 1;     // blocks of a split

 public:
  TileSplitter(Cta& cta, const PlanParams& p, const Variant& variant, void* shared)
      : cta_(cta), p_(p), variant_(variant), memory_(shared, p) {}

  int items() const { return items_; }
  // At least the keys of each item.
  Cost longest_keys() const { return static_cast<Cost>(longest_) * p_.kv_align.divisor; }
  Cost* order() const { return memory_.order; }

  // Finds the tiles and splits them. A batch with a fault has no tiles.
  void split(BatchFault& fault) {
    RequestScan<Cta> scan(cta_, p_, fault);
#pragma unroll 1
    for (int first = 0; first < p_.requests; first += Cta::THREADS) {
      ScannedRequest own = scan.next(first, fault);
      if (own.request < p_.requests) memory_.requests[own.request] = {own.lens, own.kv_token, own.first_tile};
    }
    int tiles = scan.finish();
    tiles_ = cta_.any(fault.code != Fault::None) ? 0 : tiles;
    find_visible();
    is_cut_ = p_.fixed_split_blocks > 0 || static_cast<unsigned>(tiles_) < p_.max_workers;
    items_ = tiles_;
    if (!is_cut_) return;
    if (p_.fixed_split_blocks == 0) most_ = longest_split();
    count_items();
  }

  // The keys of an item.
  int length(int index) const {
    ItemSplit of = split_of(index);
    return of.end - of.begin;
  }

  // An item. Writes the merge of its tile, if it is the first.
  WorkItem item(int index) const {
    ItemSplit of = split_of(index);
    const SplitTile& tile = memory_.tiles[of.tile];
    const SplitRequest& request = memory_.requests[tile.request];
    WorkItem item = tile_at(of.tile, tile.request, request);
    item.kv_begin = of.begin, item.kv_end = of.end;
    if (of.count > 1) {
      TileStart start = memory_.starts[of.tile];
      int states = start.item - (of.tile - start.merge);  // of the tiles before
      item.partial = (states + index - start.item) * static_cast<int>(p_.tile_rows.divisor);
      item.merge = start.merge;
      if (index == start.item) write_merge(item, of.count);
    }
    return item;
  }

  int merges() const { return merges_; }

 private:
  // An item's tile, its keys, and the splits of the tile.
  struct ItemSplit {
    int tile, begin, end, count;
  };

  ItemSplit split_of(int index) const {
    int number = index, split = 0;
    if (is_cut_) {
      number = partition_point(tiles_, [&](unsigned tile) { return memory_.starts[tile].item <= index; }) - 1;
      split = index - memory_.starts[number].item;
    }
    const SplitTile& tile = memory_.tiles[number];
    unsigned keys = memory_.requests[tile.request].lens.keys, align = p_.kv_align.divisor;
    unsigned begin = 0, end = blocks_of(tile), count = 1;
    if (is_cut_) {
      lang::kv_splits::KvSplits splits = splits_of(tile);
      begin = lang::kv_splits::split_begin(splits, split), end = lang::kv_splits::split_end(splits, split);
      count = lang::kv_splits::count(splits);
    }
    auto key = [&](unsigned block) { return static_cast<int>(min((tile.visible.begin + block) * align, keys)); };
    if (begin == end) return {number, 0, 0, static_cast<int>(count)};
    return {number, key(begin), key(end), static_cast<int>(count)};
  }

  // The Q tile of a number, without its KV range.
  WorkItem tile_at(int number, int of, const SplitRequest& request) const {
    int first_row = (number - request.first_tile) * static_cast<int>(p_.tile_rows.divisor);
    return tile_of_request(p_, of, first_row, request.lens, request.kv_token);
  }

  static int blocks_of(const SplitTile& tile) { return tile.visible.end - tile.visible.begin; }

  lang::kv_splits::KvSplits splits_of(const SplitTile& tile) const {
    unsigned begin = tile.visible.begin, end = tile.visible.end;
    if (p_.fixed_split_blocks > 0) return lang::kv_splits::at_multiples(begin, end, p_.fixed_split_blocks);
    return lang::kv_splits::equal(begin, end, most_, p_.min_split_blocks);
  }

  // Finds the visible blocks of all tiles, a tile a thread.
  void find_visible() {
    int own = 0, longest;
#pragma unroll 1
    for (int number = cta_.thread(); number < tiles_; number += Cta::THREADS) {
      auto is_before = [&](unsigned request) { return memory_.requests[request].first_tile <= number; };
      int request = partition_point(p_.requests, is_before) - 1;
      WorkItem tile = tile_at(number, request, memory_.requests[request]);
      BlockRange visible = visible_blocks<true>(p_, variant_, tile);
      memory_.tiles[number] = {visible, request};
      own = max(own, visible.end - visible.begin);
    }
    cta_.any_and_max(false, own, longest);
    longest_ = longest;
  }

  // The blocks of the longest split: the fewest for which there are no more items than workers. Each warp tries a
  // length, so that most searches take one round.
  unsigned longest_split() {
    constexpr unsigned WARPS = Cta::THREADS / 32;
    unsigned yes = max(longest_, 1u), no = p_.min_split_blocks - 1, warp = cta_.thread() / 32;
#pragma unroll 1
    while (yes > no + 1) {
      Cost range = yes - no;
      auto length = [&](unsigned n) { return no + static_cast<unsigned>(range * (n + 1) / (WARPS + 1)); };
      unsigned items = 0, most = length(warp);
#pragma unroll 1
      for (int tile = cta_.thread() % 32; tile < tiles_; tile += 32)
        items += lang::kv_splits::splits_of(blocks_of(memory_.tiles[tile]), max(most, 1u));
#pragma unroll
      for (int lane = 16; lane > 0; lane /= 2) items += __shfl_xor_sync(0xffffffff, items, lane);
      bool fits = most > no && items <= p_.max_workers && cta_.thread() % 32 == 0;
      Cost fitting;
      cta_.exclusive_sum(fits, Cta::THREADS, fitting);
      unsigned first = WARPS - static_cast<unsigned>(fitting);  // that fits: longer splits make fewer items
      unsigned below = first > 0 ? length(first - 1) : no;
      if (fitting > 0) yes = length(first);
      no = below;
    }
    return yes;
  }

  // Numbers items and merges by a prefix sum over the tiles.
  void count_items() {
    Cost counted = 0;  // items in the lower 32 bits, merges in the upper
#pragma unroll 1
    for (int first = 0; first < tiles_; first += Cta::THREADS) {
      int tile = first + cta_.thread();
      unsigned splits = tile < tiles_ ? lang::kv_splits::count(splits_of(memory_.tiles[tile])) : 0;
      Cost all, own = static_cast<Cost>(splits > 1) << 32 | splits;
      Cost before = counted + cta_.exclusive_sum(own, min(tiles_ - first, Cta::THREADS), all);
      counted += all;
      if (tile < tiles_)
        memory_.starts[tile] = {static_cast<int>(before & 0xffffffff), static_cast<int>(before >> 32)};
    }
    items_ = static_cast<int>(counted & 0xffffffff), merges_ = static_cast<int>(counted >> 32);
    cta_.sync();
  }

  void write_merge(const WorkItem& tile, int count) const {
    int4* to = p_.merges + MERGE_WORDS * tile.merge;
    to[0] = make_int4(tile.request, tile.first_row, tile.rows, tile.partial);
    to[1] = make_int4(count, tile.qo_token, tile.qo_len, tile.kv_len);
  }
};
