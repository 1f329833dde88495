// The Q tiles of a flat list that are split one by one, and their items.
#pragma once
#include "planner/found_tiles.cuh"
#include "planner/sort.cuh"

// A request: its lengths, its first key token and its first Q tile.
struct SplitRequest {
  RequestLengths lens;
  int kv_token, first_tile;
};

// Scratch memory, in shared memory or in the workspace; `order` may be in shared memory while the rest is not.
// attn-kernels/src/launch/planner_scratch.rs computes its size.
struct SplitScratch {
  Cost* order;             // [items] of the sort, or where the costs of items begin
  SplitRequest* requests;  // [requests]
  TileStart* starts;       // [tiles], if any is cut
  SplitTile* tiles;        // [tiles]

  SplitScratch(void* shared, const PlanParams& p) {
    order = p.order ? p.order : static_cast<Cost*>(shared);
    requests = static_cast<SplitRequest*>(p.scratch ? p.scratch : sort(p).counters + SORT_COUNTERS);
    tiles = reinterpret_cast<SplitTile*>(requests + p.capacity_requests);
    starts = reinterpret_cast<TileStart*>(tiles + p.capacity_items);
  }

  SortBuffers sort(const PlanParams& p) const {
    return {reinterpret_cast<unsigned*>(order + p.capacity_items), reinterpret_cast<unsigned*>(order)};
  }
};

template <class Cta, class Variant>
class TileSplitter {
  Cta& cta_;
  const PlanParams& p_;
  const Variant& variant_;
  SplitScratch memory_;
  TileSplits<Cta> splits_;
  int longest_ = 0;  // blocks of a tile

 public:
  TileSplitter(Cta& cta, const PlanParams& p, const Variant& variant, void* shared)
      : cta_(cta), p_(p), variant_(variant), memory_(shared, p), splits_(cta, p, memory_.tiles, memory_.starts) {}

  int items() const { return splits_.items(); }
  // At least the keys of each item.
  Cost longest_keys() const { return static_cast<Cost>(longest_) * p_.kv_align.divisor; }
  const SplitScratch& memory() const { return memory_; }

  // Finds the tiles, together with the other CTAs. The one that plans splits them; a batch with a fault has none.
  void split(BatchFault& fault, int part, int parts) {
    RequestScan<Cta, PlanParams> scan(cta_, p_, fault, part == parts);
#pragma unroll 1
    for (int first = 0; first < p_.requests; first += Cta::THREADS) {
      ScannedRequest own = scan.next(first, fault);
      if (own.request < p_.requests) memory_.requests[own.request] = {own.lens, own.kv_token, own.first_tile};
    }
    int tiles = scan.finish();
    if (cta_.any(fault.code != Fault::None)) {
      if (part < parts) report_found_tiles(cta_, p_);
      return;
    }
    fault = {};  // as it is: it takes no registers then
    find_tiles(cta_, p_, memory_.tiles, tiles, part, parts, [&](int number) { return found(number); });
    if (part < parts) return;
    int own = 0;
    cta_.each(0, tiles, [&](int number) { own = max(own, blocks_of(memory_.tiles[number])); });
    cta_.any_and_max(false, own, longest_);
    splits_.split(tiles, longest_, p_.max_workers);
  }

  // The keys of an item.
  int length(int index) const {
    BlockRange keys = keys_of_split(splits_.of(index));
    return keys.end - keys.begin;
  }

  // An item. Writes the merge of its tile, if it is the first.
  WorkItem item(int index) const {
    ItemSplit of = splits_.of(index);
    int request = memory_.tiles[of.tile].request;
    BlockRange keys = keys_of_split(of);
    WorkItem item = tile_at(of.tile, request, memory_.requests[request]);
    item.kv_begin = keys.begin, item.kv_end = keys.end;
    if (of.count > 1) {
      int first = index - of.split;
      item.merge = splits_.cut_tiles_before(of.tile);
      int states = first - (of.tile - item.merge);  // of the tiles before
      item.partial = (states + of.split) * static_cast<int>(p_.tile_rows.divisor);
      if (of.split == 0) write_merge(item, of.count);
    }
    return item;
  }

 private:
  BlockRange keys_of_split(const ItemSplit& of) const {
    const SplitTile& tile = memory_.tiles[of.tile];
    return keys_of(tile, of, p_.kv_align.divisor, memory_.requests[tile.request].lens.keys);
  }

  // The Q tile of a number, without its KV range.
  WorkItem tile_at(int number, int of, const SplitRequest& request) const {
    int first_row = (number - request.first_tile) * static_cast<int>(p_.tile_rows.divisor);
    return tile_of_request(p_, of, first_row, p_.tile_rows.divisor, request.lens, request.kv_token);
  }

  // A tile with its visible blocks.
  SplitTile found(int number) const {
    auto is_before = [&](unsigned request) { return memory_.requests[request].first_tile <= number; };
    int request = partition_point(p_.requests, is_before) - 1;
    return {visible_blocks(p_, variant_, tile_at(number, request, memory_.requests[request]), p_.kv_align, true),
            request};
  }

  void write_merge(const WorkItem& tile, int count) const {
    int4* to = p_.merges + MERGE_WORDS * tile.merge;
    to[0] = make_int4(tile.request, tile.first_row, tile.rows, tile.partial);
    to[1] = make_int4(count, tile.qo_token, tile.qo_len, tile.kv_len);
  }
};
