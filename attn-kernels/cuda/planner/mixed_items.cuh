// The items of a mixed list: those of the decode part in the order of the stream-K line, and those of the prefill part
// by request.
#pragma once
#include "planner/line_items.cuh"
#include "planner/mixed_states.cuh"

// The tiles of the decode part, for LineItems.
template <class Tiles, class States>
struct DecodeTiles {
  const MixedPlanParams& p;
  const Tiles& tiles;
  const States& states;

  unsigned align() const { return p.decode_align.divisor; }
  WorkItem tile(unsigned number) const {
    SplitTile of = tiles.memory.tiles[number];
    WorkItem tile = tiles.tile_at(number, of.request);
    tile.kv_begin = of.visible.begin, tile.kv_end = of.visible.end;
    return tile;
  }
  int split_of(const LineItem& made) const { return made.cuts - tiles.memory.first_splits[made.cut_tile]; }
  void set_states(LineItem& made) const {
    if (made.cut_tile < 0) return;
    made.item.partial = states.row_of(made.cut_tile, split_of(made), made.item.rows);
  }
  void store(int index, const LineItem& made) const {
    store_item(p.items + ITEM_WORDS * index, made.item);
    if (made.cut_tile >= 0)
      states.write(made.item, made.cut_tile, split_of(made), tiles.memory.splits_of(made.cut_tile));
  }
};

// Items of the prefill part: those of the longest request first, of a request the longest first. Otherwise they keep
// their order.
template <class Cta, class Tiles, class Splits, class States>
class PrefillItems {
  // Of more items than these of a request all are sorted; otherwise the place of an item among them is counted.
  static constexpr int MOST_COUNTED = 32;

  Cta& cta_;
  const MixedPlanParams& p_;
  const Tiles& tiles_;
  const Splits& splits_;
  const States& states_;

  SplitTile tile_of(const ItemSplit& of) const { return tiles_.memory.tiles[tiles_.decodes + of.tile]; }

  BlockRange keys_of_split(const SplitTile& tile, const ItemSplit& of) const {
    return keys_of(tile, of, p_.kv_align.divisor, tiles_.memory.requests[tile.request].lens.keys);
  }

  // The items of a request.
  BlockRange items_of(const MixedRequest& request) const {
    int end = request.prefills + tiles_of(p_, request.lens);
    return {splits_.first_item(request.prefills), splits_.first_item(end)};
  }

  // Adds up where the items of each request begin, in the order of keys. Returns the most items of one.
  int place_requests() const {
    MixedRequest* requests = tiles_.memory.requests;
    const int* numbers = tiles_.memory.long_requests;
    SortBuffers buffers = tiles_.memory.sort();
    int count = tiles_.long_requests, own_most = 0, most, own = cta_.thread();
    auto keys = [&](unsigned number) { return requests[numbers[number]].lens.keys; };
    auto items = [&](unsigned number) {
      BlockRange of = items_of(requests[numbers[number]]);
      own_most = max(own_most, of.end - of.begin);
      return static_cast<unsigned>(of.end - of.begin);
    };
    if (are_few<Cta>(count, tiles_.longest_request)) {
      const unsigned* before = sums_before(cta_, buffers, count, tiles_.longest_request, keys, items);
      if (own < count) requests[numbers[own]].item = before[own];
    } else {
      const unsigned* sorted = sort_numbers(cta_, buffers, count, tiles_.longest_request, keys);
      auto set_item = [&](int at, Cost before, Cost) { requests[numbers[sorted[at]]].item = static_cast<int>(before); };
      cta_.scan(count, [&](int at) { return items(sorted[at]); }, set_item);
    }
    cta_.any_and_max(false, own_most, most, 3);
    return most;
  }

  int length(int index) const {
    ItemSplit of = splits_.of(index);
    BlockRange keys = keys_of_split(tile_of(of), of);
    return keys.end - keys.begin;
  }

  // Sorts the items of each request, which are neighbours before and after.
  const unsigned* sort_items() const {
    const MixedScratch& memory = tiles_.memory;
    int bits = 32 - __clz(tiles_.longest_request);
    Cost most = static_cast<Cost>(p_.requests) << bits | tiles_.longest_request;
    auto weight = [&](int index) {
      Cost after = p_.requests - tile_of(splits_.of(index)).request;
      return after << bits | length(index);
    };
    SortBuffers buffers = memory.sort();
    if (p_.found && splits_.items() > static_cast<int>(FEW_NUMBERS)) buffers.numbers = static_cast<unsigned*>(p_.found);
    return sort_numbers(cta_, buffers, splits_.items(), most, weight);
  }

  // The items of a request that are longer than one, or as long and before it.
  int count_before(BlockRange items, int index) const {
    const int* lengths = reinterpret_cast<const int*>(tiles_.memory.order);
    int before = 0, length = lengths[index];
#pragma unroll 4
    for (int other = items.begin; other < items.end; ++other)
      before += lengths[other] > length || (lengths[other] == length && other < index);
    return before;
  }

  WorkItem item_of(const SplitTile& tile, const ItemSplit& of) const {
    WorkItem item = tiles_.tile_at(tiles_.decodes + of.tile, tile.request);
    BlockRange keys = keys_of_split(tile, of);
    item.kv_begin = keys.begin, item.kv_end = keys.end;
    if (of.count == 1) return item;
    int cut_tile = states_.of_prefill(of.tile);
    item.partial = states_.row_of(cut_tile, of.split, item.rows);
    states_.write(item, cut_tile, of.split, of.count);
    return item;
  }

 public:
  PrefillItems(Cta& cta, const MixedPlanParams& p, const Tiles& tiles, const Splits& splits, const States& states)
      : cta_(cta), p_(p), tiles_(tiles), splits_(splits), states_(states) {}

  void write() const {
    if (tiles_.long_requests == 0) return;
    bool sorts = place_requests() > MOST_COUNTED;
    const unsigned* sorted = nullptr;
    if (sorts) {
      sorted = sort_items();
    } else {
      int* lengths = reinterpret_cast<int*>(tiles_.memory.order);
      cta_.each(0, splits_.items(), [&](int index) { lengths[index] = length(index); });
      cta_.sync();
    }
    cta_.each(0, splits_.items(), [&](int at) {
      int index = sorts ? sorted[at] : at;
      ItemSplit of = splits_.of(index);
      SplitTile tile = tile_of(of);
      const MixedRequest& request = tiles_.memory.requests[tile.request];
      BlockRange items = items_of(request);
      int to = request.item + (sorts ? at - items.begin : count_before(items, index));
      store_item(p_.items + ITEM_WORDS * (p_.decode_items + to), item_of(tile, of));
    });
  }
};
