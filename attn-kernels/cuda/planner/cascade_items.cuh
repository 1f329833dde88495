// The items of a cascade: those of the decode part in the order of the stream-K line, and those of the prefill part,
// the longest first.
#pragma once
#include "planner/cascade_states.cuh"
#include "planner/line_items.cuh"

template <class Cta, class Variant>
class CascadeItems {
  Cta& cta_;
  const CascadePlanParams& p_;
  const CascadeScratch& memory_;
  const CascadeTiles<Cta, Variant>& tiles_;
  const CascadeStates<Cta>& states_;

 public:
  CascadeItems(Cta& cta, const CascadePlanParams& p, const CascadeScratch& memory,
               const CascadeTiles<Cta, Variant>& tiles, const CascadeStates<Cta>& states)
      : cta_(cta), p_(p), memory_(memory), tiles_(tiles), states_(states) {}

  // For LineItems: a tile of the decode part, whose keys count from the first of its segment. `merge` is its number.
  unsigned align() const { return p_.decode_align.divisor; }
  WorkItem tile(unsigned part_index) const {
    SplitTile of = memory_.tiles_of_parts[part_index];
    WorkItem item = {};
    item.kv_begin = of.visible.begin, item.kv_end = of.visible.end;
    item.kv_len = tiles_.keys_of_segment(memory_.tiles[of.request]).end;
    item.merge = of.request;
    return item;
  }
  void set_states(LineItem& made) const {
    int split = made.cut_tile < 0 ? 0 : made.cuts - memory_.first_splits[made.cut_tile];
    BlockRange keys = {made.item.kv_begin, made.item.kv_end};
    made.item = item_of(memory_.tiles[made.item.merge], keys, split);
  }
  void store(int index, const LineItem& made) const { store_item(p_.items + ITEM_WORDS * index, made.item); }

  // Writes the items of the prefill part. Equally long ones are in the order of their rows, then of their keys.
  template <class Splits>
  void write_longest_first(const Splits& splits) const {
    unsigned items = splits.items();
    unsigned group = p_.group.divisor, all_rows = static_cast<unsigned>(p_.max_qo_tokens) * group;
    int row_bits = 32 - __clz(all_rows);
    Cost last_row = (Cost(1) << row_bits) - 1;
    auto keys_of_item = [&](const ItemSplit& of) {
      SplitTile tile = memory_.tiles_of_parts[p_.decode_items + of.tile];
      unsigned keys = tiles_.keys_of_segment(memory_.tiles[tile.request]).end;
      return keys_of(tile, of, p_.kv_align.divisor, keys);
    };
    auto weight = [&](unsigned index) {
      ItemSplit of = splits.of(index);
      BlockRange keys = keys_of_item(of);
      const CascadeRows& rows = tile_of(of).rows;
      unsigned row = memory_.requests[rows.request].qo_token * group + rows.first_row;
      return static_cast<Cost>(keys.end - keys.begin) << row_bits | (last_row - row);
    };
    Cost longest = static_cast<Cost>(tiles_.costs.longest_prefill) * p_.kv_align.divisor;
    longest = min(longest, static_cast<Cost>(p_.max_kv_tokens));
    const unsigned* sorted = sort_numbers(cta_, memory_.sort, items, longest << row_bits | last_row, weight);
    cta_.each(0u, items, [&](unsigned at) {
      ItemSplit of = splits.of(sorted[at]);
      store_item(p_.items + ITEM_WORDS * (p_.decode_items + at), item_of(tile_of(of), keys_of_item(of), of.split));
    });
  }

 private:
  const CascadeTile& tile_of(const ItemSplit& of) const {
    return memory_.tiles[memory_.tiles_of_parts[p_.decode_items + of.tile].request];
  }

  // A split of a tile, whose keys count from the first of the segment. Writes where its states are.
  WorkItem item_of(const CascadeTile& tile, BlockRange keys, int split) const {
    const CascadeRequest& request = memory_.requests[tile.rows.request];
    KvSegment of = {};
    if (tile.segment >= 0) {
      of = memory_.segments[tile.segment];
    } else {
      of.memory = has_pages(p_) ? 0 : request.kv_token, of.pass = request.kv_token;
    }
    WorkItem item;
    item.request = tile.rows.request, item.requests = tile.rows.requests;
    item.first_row = tile.rows.first_row, item.rows = tile.rows.rows;
    item.kv_begin = of.kv_begin + keys.begin, item.kv_end = of.kv_begin + keys.end;
    item.kv_first = of.kv_begin, item.memory = of.memory, item.pass = of.pass;
    bool has_keys = keys.begin < keys.end;
    item.full = has_keys && tiles_.keys().is_full(tile.rows, item.kv_begin, item.kv_end - 1);
    item.partial = states_.assign_split(tile, split), item.merge = -1;
    item.qo_token = request.qo_token, item.qo_len = request.queries;
    item.kv_token = request.kv_token, item.kv_len = request.keys;
    return item;
  }
};
