// The tiles of a cascade, as attn-core/src/plan/cascade.rs: rows against the keys of a segment, level by level. Where
// the costs say so, tiles have rows of all requests that share the segment; otherwise each request has tiles of its
// own.
#pragma once
#include "planner/cascade_cost.cuh"
#include "planner/cascade_requests.cuh"
#include "planner/segment_visible.cuh"

constexpr int DECODE = 0, PREFILL = 1;

// Which requests share tiles, as attn-core/src/plan/cascade_cost.rs.
class CascadeSharing {
  const CascadePlanParams& p_;
  const CascadeRequest* requests_;

  // The rule of a part.
  unsigned rows(int part) const { return part == DECODE ? p_.decode_rows : p_.tile_rows.divisor; }
  unsigned align(int part) const { return part == DECODE ? p_.decode_align.divisor : p_.kv_align.divisor; }
  Cost item(int part) const { return part == DECODE ? p_.decode_item_cost : p_.item_cost; }
  Cost block(int part) const { return part == DECODE ? p_.decode_block_cost : p_.block_cost; }

  Cost cascade_cost(const CascadeRequest& begin, const CascadeRequest& end, Cost rows_of_all, Cost keys, int part,
                    Cost first) const {
    Cost tiles = (rows_of_all + rows(part) - 1) / rows(part), blocks = (keys + align(part) - 1) / align(part);
    Cost units = end.first_unit - begin.first_unit;
    Cost states = lang::saturating_mul(units, Cost(p_.state_cost));
    Cost cost = lang::saturating_add(lang::cascade_cost::tiles_cost(tiles, item(part), blocks, block(part)), states);
    return part == DECODE ? cost : lang::saturating_add(cost, first);
  }

  // Requests of the decode part are alike.
  Cost flat_cost(const KvSegment& segment, Cost first) const {
    const CascadeRequest &begin = requests_[segment.request], &end = requests_[segment.request + segment.requests];
    Cost keys = segment.keys, decodes = end.decodes - begin.decodes;
    Cost block = min(p_.cached_block, p_.decode_block_cost);
    Cost each = lang::cascade_cost::keys_cost(1, keys, block, align(DECODE));
    Cost cost = lang::saturating_add(first, lang::saturating_mul(decodes, each));
    if (end.active - begin.active == end.decodes - begin.decodes) return cost;
#pragma unroll 1
    for (const CascadeRequest* request = &begin; request < &end; ++request) {
      if (is_decode(p_, *request)) continue;
      Cost tiles = ceil_divide(rows_of(p_, *request), p_.tile_rows);
      cost = lang::saturating_add(cost, lang::cascade_cost::keys_cost(tiles, keys, p_.block_cost, align(PREFILL)));
    }
    return cost;
  }

 public:
  CascadeSharing(const CascadePlanParams& p, const CascadeRequest* requests) : p_(p), requests_(requests) {}

  // The part that runs all rows of a segment in shared tiles, or -1 if each request runs on its own.
  int part_of(const KvSegment& segment) const {
    constexpr int NEVER = 0, ALWAYS = 1;
    const CascadeRequest &begin = requests_[segment.request], &end = requests_[segment.request + segment.requests];
    if (end.active - begin.active < 2 || p_.policy == NEVER) return -1;
    // a tile has whole units, so the largest unit must fit
    if (p_.tile_rows.divisor < min(static_cast<unsigned>(p_.decode_rows), lang::merge_units::ROWS)) return -1;
    Cost rows = static_cast<Cost>(end.qo_token - begin.qo_token) * p_.group.divisor;
    int part = rows <= static_cast<Cost>(p_.decode_rows) ? DECODE : PREFILL;
    if (p_.policy == ALWAYS) return part;
    Cost blocks = (static_cast<Cost>(segment.keys) + align(DECODE) - 1) / align(DECODE);
    Cost first = lang::cascade_cost::first_read(blocks, p_.decode_block_cost, p_.cached_block);
    return cascade_cost(begin, end, rows, segment.keys, part, first) < flat_cost(segment, first) ? part : -1;
  }
};

// Walks over the tiles of a segment that several requests share, each with as many whole units as fit.
class SharedTiles {
  const CascadePlanParams& p_;
  const CascadeRequest* requests_;

  // A unit: its request, its first row there, and its first row of the batch.
  struct Unit {
    int number, request;
    unsigned first_row, row;
  };

  // The first of `count` units at or after request `from` that ends behind a row of the batch.
  Unit first_behind(unsigned row, int from, int end) const {
    unsigned group = p_.group.divisor;
    auto begins = [&](unsigned other) { return requests_[from + other].qo_token * group <= row; };
    int request = from + static_cast<int>(partition_point(end - from, begins)) - 1;
    const CascadeRequest& of = requests_[request];
    unsigned before = of.qo_token * group, rows = rows_of(p_, of), tile_rows = tile_rows_of(p_, of);
    unsigned unit = lang::merge_units::ended(row - before, rows, tile_rows);
    unsigned first_row = min(lang::merge_units::first_row(unit, tile_rows), rows);
    return {of.first_unit + static_cast<int>(unit), request, first_row, before + first_row};
  }

 public:
  SharedTiles(const CascadePlanParams& p, const CascadeRequest* requests) : p_(p), requests_(requests) {}

  // Calls `then` with the number and the first unit of each tile. Returns the number of tiles.
  template <class Then>
  int walk(const KvSegment& segment, int part, const Then& then) const {
    unsigned tile_rows = part == DECODE ? p_.decode_rows : p_.tile_rows.divisor;
    int end = segment.request + segment.requests, end_unit = requests_[end].first_unit, tiles = 0;
    unsigned row = requests_[segment.request].qo_token * p_.group.divisor;
    // the host takes the first unit whatever its rows, which fit
#pragma unroll 1
    for (Unit at = {requests_[segment.request].first_unit, segment.request, 0, row}; at.number < end_unit; ++tiles) {
      then(tiles, at.number);
      at = first_behind(at.row + tile_rows, at.request, end);
    }
    return tiles;
  }
};

template <class Cta, class Variant>
class CascadeTiles {
  Cta& cta_;
  const CascadePlanParams& p_;
  const CascadeScratch& memory_;
  SegmentKeys<Variant> keys_;
  int slots_ = 0, tiles_ = 0;  // tiles with those that are not run

 public:
  int decodes = 0, prefills = 0;  // tiles of the parts
  PartCosts costs;

  CascadeTiles(Cta& cta, const CascadePlanParams& p, const CascadeScratch& memory, const Variant& variant)
      : cta_(cta), p_(p), memory_(memory), keys_(p, variant, memory.requests) {}

  int count() const { return tiles_; }
  const SegmentKeys<Variant>& keys() const { return keys_; }

  // Finds the tiles of `segments` segments.
  void find(int segments) {
    CascadeSharing sharing(p_, memory_.requests);
    cta_.each(0, segments,
              [&](int segment) { memory_.shared_part[segment] = sharing.part_of(memory_.segments[segment]); });
    cta_.sync();
    count_tiles();
    cta_.sync();
    find_visible();
    cta_.sync();
    costs = PartCosts::of(cta_, p_, memory_.tiles_of_parts, decodes, memory_.tiles_of_parts + p_.decode_items, prefills,
                          memory_.ends);
  }

  // The keys of a tile: where they begin in the request, and their number.
  BlockRange keys_of_segment(const CascadeTile& tile) const {
    if (tile.segment < 0) return {0, 0};
    const KvSegment& of = memory_.segments[tile.segment];
    return {of.kv_begin, of.keys};
  }

 private:
  // A request in a level, or behind all levels a request without keys: the tiles of each come in this order.
  struct Slot {
    int level, request, segment, part;  // part: of shared tiles, or -1
  };
  Slot slot_at(int number) const {
    int level = number / p_.requests, request = number - level * p_.requests;
    if (level == p_.levels) return {level, request, -1, -1};
    int segment = memory_.segment_of[number];
    return {level, request, segment, segment < 0 ? -1 : memory_.shared_part[segment]};
  }

  // The tiles of a slot: of a shared segment all are those of its first request.
  int tiles_of(const Slot& slot) const {
    const CascadeRequest& request = memory_.requests[slot.request];
    bool there = slot.level < p_.levels ? slot.segment >= 0 : request.keys == 0;
    if (!there) return 0;
    if (slot.part < 0)
      return static_cast<int>((rows_of(p_, request) + tile_rows_of(p_, request) - 1) / tile_rows_of(p_, request));
    const KvSegment& segment = memory_.segments[slot.segment];
    if (segment.request != slot.request) return 0;
    return SharedTiles(p_, memory_.requests).walk(segment, slot.part, [](int, int) {});
  }

  // Counts the tiles of all slots, and notes the first units of those that requests share.
  void count_tiles() {
    slots_ = (p_.levels + 1) * p_.requests;
    Slot slot = {};
    auto count = [&](int number) { return static_cast<Cost>(tiles_of(slot = slot_at(number))); };
    Cost counted = cta_.scan(slots_, count, [&](int number, Cost before, Cost own) {
      int begin = static_cast<int>(before);
      memory_.first_tiles[number] = begin;
      if (own == 0 || slot.part < 0) return;
      SharedTiles(p_, memory_.requests).walk(memory_.segments[slot.segment], slot.part, [&](int tile, int unit) {
        if (begin + tile < p_.capacity_tiles) memory_.tiles[begin + tile].rows.first_unit = unit;
      });
    });
    // a sound batch within the capacity has no more
    tiles_ = static_cast<int>(min(counted, static_cast<Cost>(p_.capacity_tiles)));
  }

  // The rows of a tile. Requests without rows have no units.
  CascadeRows rows_of_tile(int number, int slot_number, const Slot& slot) const {
    const CascadeRequest& request = memory_.requests[slot.request];
    int begin = memory_.first_tiles[slot_number];
    if (slot.part < 0) {
      unsigned tile_rows = tile_rows_of(p_, request), first_row = (number - begin) * tile_rows;
      unsigned rows = min(rows_of(p_, request) - first_row, tile_rows);
      int unit = request.first_unit + static_cast<int>(lang::merge_units::ended(first_row, ~0u, tile_rows));
      int units = static_cast<int>(lang::merge_units::count(rows, tile_rows));
      return {slot.request, 1, static_cast<int>(first_row), static_cast<int>(rows), unit, units};
    }
    const KvSegment& segment = memory_.segments[slot.segment];
    int next_slot = slot_number + 1, end_tile = next_slot < slots_ ? memory_.first_tiles[next_slot] : tiles_;
    int unit = memory_.tiles[number].rows.first_unit;
    int end = number + 1 < end_tile ? memory_.tiles[number + 1].rows.first_unit
                                    : memory_.requests[segment.request + segment.requests].first_unit;
    int first = memory_.request_of_unit(p_, unit), last = memory_.request_of_unit(p_, end - 1);
    const CascadeRequest &of_first = memory_.requests[first], &of_last = memory_.requests[last];
    int first_row = row_of_unit(p_, of_first, unit), end_row = row_of_unit(p_, of_last, end);
    int between = (of_last.qo_token - of_first.qo_token) * static_cast<int>(p_.group.divisor);
    return {first, last - first + 1, first_row, between + end_row - first_row, unit, end - unit};
  }

  // The tile that has the last keys of a request must write its rows, even if they see none of them.
  bool has_last_keys(const CascadeRows& rows, int level) const {
#pragma unroll 1
    for (int request = rows.request; request < rows.request + rows.requests; ++request)
      if (memory_.requests[request].last_level == level) return true;
    return false;
  }

  // Finds the visible blocks of all tiles, a tile a thread, and places those that run in their parts.
  void find_visible() {
    Cost counted = 0;  // tiles of the decode part in the lower 32 bits, of the prefill part in the upper
#pragma unroll 1
    for (int first = 0; first < tiles_; first += Cta::THREADS) {
      int number = first + cta_.thread();
      CascadeTile tile = {};
      bool decode = false, prefill = false;
      if (number < tiles_) {
        auto is_before = [&](unsigned slot) { return memory_.first_tiles[slot] <= number; };
        int slot_number = static_cast<int>(partition_point(slots_, is_before)) - 1;
        Slot slot = slot_at(slot_number);
        tile.rows = rows_of_tile(number, slot_number, slot);
        bool has_keys = slot.level < p_.levels;
        tile.level = has_keys ? slot.level : 0, tile.segment = slot.segment;
        decode = slot.part >= 0 ? slot.part == DECODE : is_decode(p_, memory_.requests[slot.request]);
        BlockRange keys = keys_of_segment(tile);
        FastDiv align = decode ? p_.decode_align : p_.kv_align;
        if (has_keys) tile.visible = keys_.visible(tile.rows, keys.begin, keys.end, align);
        bool runs = tile.visible.end > tile.visible.begin || !has_keys || has_last_keys(tile.rows, slot.level);
        prefill = runs && !decode, decode = runs && decode;
      }
      Cost all, before = static_cast<Cost>(prefill) << 32 | static_cast<Cost>(decode);
      // a barrier before the rows of tiles are overwritten
      before = counted + cta_.exclusive_sum(before, Cta::THREADS, all);
      counted += all;
      if (number >= tiles_) continue;
      int index = static_cast<int>(decode ? before & 0xffffffff : p_.decode_items + (before >> 32));
      tile.part_index = decode || prefill ? index : -1;
      memory_.tiles[number] = tile;
      if (tile.part_index >= 0 && index < p_.capacity_tiles) memory_.tiles_of_parts[index] = {tile.visible, number};
    }
    decodes = static_cast<int>(counted & 0xffffffff), prefills = static_cast<int>(counted >> 32);
  }
};
