// The partial states of a mixed list: rows of cut tiles, and merges of units of up to MERGE_ROWS rows. As
// attn-core/src/plan/partial_rows.rs.
#pragma once
#include "planner/line_items.cuh"
#include "planner/mixed_tiles.cuh"

constexpr int MERGE_ROWS = 16;

// The states of all cut tiles, in the order of requests.
template <class Tiles, class Splits>
class MixedStates {
  // One prefix sum counts rows, entries of `merge_parts` and merges. MixedPlanParams::new bounds them.
  static constexpr int ROW_BITS = 24, PART_BITS = 20;

  const MixedPlanParams& p_;
  const Tiles& tiles_;
  const Splits& prefill_;
  SplitCounts decode_;

  static TileStates unpack(Cost counted) {
    int row = static_cast<int>(counted & ((1u << ROW_BITS) - 1));
    int part = static_cast<int>(counted >> ROW_BITS & ((1u << PART_BITS) - 1));
    return {row, static_cast<int>(counted >> (ROW_BITS + PART_BITS)), part};
  }

  static int units_of(int rows) { return (rows + MERGE_ROWS - 1) / MERGE_ROWS; }

  // The number of a tile among those that are cut, its rows and its splits; `number` is in the order of requests.
  struct CutTile {
    int number, rows, splits;
  };
  CutTile cut_tile(int number) const {
    const MixedScratch& memory = tiles_.memory;
    auto is_before = [&](unsigned request) {
      return memory.requests[request].decodes + memory.requests[request].prefills <= number;
    };
    const MixedRequest& of = memory.requests[partition_point(p_.requests, is_before) - 1];
    int rows = of.lens.queries * static_cast<int>(p_.group.divisor);
    if (is_decode(p_, of.lens)) {
      unsigned tile = of.decodes;
      TileSplit first = memory.splits[cuts_before_tile(memory, decode_.in_tiles, tile)];
      return {first.merge, rows, first.tile == tile ? memory.splits_of(first.merge) : 1};
    }
    int tile = number - of.decodes, before = (tile - of.prefills) * static_cast<int>(p_.tile_rows.divisor);
    int splits = prefill_.count_of(tile);
    int cut = splits > 1 ? of_prefill(tile) : 0;
    return {cut, min(rows - before, static_cast<int>(p_.tile_rows.divisor)), splits};
  }

 public:
  MixedStates(const MixedPlanParams& p, const Tiles& tiles, const Splits& prefill, SplitCounts decode)
      : p_(p), tiles_(tiles), prefill_(prefill), decode_(decode) {}

  // The number of a tile of the prefill part among the tiles that are cut.
  int of_prefill(int tile) const { return decode_.cut_tiles + prefill_.cut_tiles_before(tile); }

  // Assigns rows and merges by a prefix sum over all tiles.
  template <class Cta>
  void assign(Cta& cta) const {
    if (decode_.cut_tiles + prefill_.cut_tiles() == 0) return;
    CutTile own;
    auto states = [&](int tile) -> Cost {
      own = cut_tile(tile);
      if (own.splits == 1) return 0;
      Cost units = units_of(own.rows), splits = own.splits;
      return (units << PART_BITS | units * splits) << ROW_BITS | splits * own.rows;
    };
    cta.scan(tiles_.decodes + tiles_.prefills, states, [&](int, Cost before, Cost) {
      if (own.splits > 1) tiles_.memory.states[own.number] = unpack(before);
    });
    cta.sync();
  }

  // The row of the state of one of a cut tile's splits.
  int row_of(int cut_tile, int split, int rows) const { return tiles_.memory.states[cut_tile].row + split * rows; }

  // Writes the entries of a split of a cut tile and, if it is the first, the merges of the tile's units.
  void write(const WorkItem& item, int cut_tile, int split, int splits) const {
    TileStates at = tiles_.memory.states[cut_tile];
    int4* merge = p_.merges + MERGE_WORDS * at.merge;
#pragma unroll 1
    for (int row = 0; row < item.rows; row += MERGE_ROWS, at.part += splits, merge += MERGE_WORDS) {
      p_.merge_parts[at.part + split] = item.partial + row;
      if (split > 0) continue;
      merge[0] = make_int4(item.request, item.first_row + row, min(item.rows - row, MERGE_ROWS), at.part);
      merge[1] = make_int4(splits, item.qo_token, item.qo_len, item.kv_len);
    }
  }
};
