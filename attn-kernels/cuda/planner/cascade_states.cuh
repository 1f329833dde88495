// The partial states of a cascade, as attn-core/src/plan/partial_rows.rs: a row has a state for each split of each
// level. Tiles with a row of several states have rows for them, and the units of their rows are merged, in the order
// of keys.
#pragma once
#include "planner/cascade_tiles.cuh"
#include "planner/line_items.cuh"

template <class Cta>
class CascadeStates {
  Cta& cta_;
  const CascadePlanParams& p_;
  const CascadeScratch& memory_;
  int tiles_, units_;
  int merges_ = 0, merge_parts_ = 0;

  // The splits of a tile.
  template <class Splits>
  int splits_of(const CascadeTile& tile, const Splits& prefill, SplitCounts decode) const {
    if (tile.part_index >= p_.decode_items) return prefill.count_of(tile.part_index - p_.decode_items);
    unsigned part_index = tile.part_index;
    TileSplit first = memory_.splits[cuts_before_tile(memory_, decode.in_tiles, part_index)];
    return first.tile == part_index ? memory_.splits_of(first.merge) : 1;
  }

  int* states_before(int level) const { return memory_.states_before + level * units_; }

  // Calls `then` with each tile that runs, a tile a thread.
  template <class Then>
  void each_tile(const Then& then) const {
    cta_.each(0, tiles_, [&](int number) {
      if (memory_.tiles[number].part_index >= 0) then(memory_.tiles[number]);
    });
  }

  // Writes a merge. Returns the rows of its unit.
  int write_merge(int unit, int merge, int part, int count) const {
    int number = memory_.request_of_unit(p_, unit);
    const CascadeRequest& request = memory_.requests[number];
    int first = row_of_unit(p_, request, unit), end = row_of_unit(p_, request, unit + 1);
    int4* to = p_.merges + MERGE_WORDS * merge;
    to[0] = make_int4(number, first, end - first, part);
    to[1] = make_int4(count, request.qo_token, request.queries, request.keys);
    return end - first;
  }

 public:
  CascadeStates(Cta& cta, const CascadePlanParams& p, const CascadeScratch& memory, int tiles, int units)
      : cta_(cta), p_(p), memory_(memory), tiles_(tiles), units_(units) {}

  int merges() const { return merges_; }
  int merge_parts() const { return merge_parts_; }

  // Counts the states of all rows, and assigns rows of states and merges.
  template <class Splits>
  void assign(const Splits& prefill, SplitCounts decode) {
    cta_.each(0, p_.levels * units_, [&](int entry) { memory_.states_before[entry] = 0; });
    cta_.sync();
    each_tile([&](CascadeTile& tile) {
      tile.splits = splits_of(tile, prefill, decode);
#pragma unroll 1
      for (int unit = 0; unit < tile.rows.units; ++unit)
        states_before(tile.level)[tile.rows.first_unit + unit] = tile.splits;
    });
    cta_.sync();
    cta_.each(0, units_, [&](int unit) {
      int before = 0;
#pragma unroll 1
      for (int level = 0; level < p_.levels; ++level) {
        int own = states_before(level)[unit];
        states_before(level)[unit] = before, before += own;
      }
      memory_.states[unit] = before, memory_.merged_rows[unit] = 0;
    });
    cta_.sync();
    each_tile([&](CascadeTile& tile) {
      const int *first = memory_.states + tile.rows.first_unit, *end = first + tile.rows.units;
      bool merges = false;
#pragma unroll 1
      for (const int* states = first; states < end; ++states) merges |= *states > 1;
      tile.partial = merges ? 0 : -1;
#pragma unroll 1
      for (int unit = 0; merges && unit < tile.rows.units; ++unit) memory_.merged_rows[tile.rows.first_unit + unit] = 1;
    });
    cta_.sync();
    assign_merges();
    assign_rows();
    cta_.sync();
  }

  // The row of the first state of a split. Writes the entries of its states in `merge_parts`.
  int assign_split(const CascadeTile& tile, int split) const {
    if (tile.partial < 0) return -1;
    int first = tile.partial + split * tile.rows.rows, row = first, end = tile.rows.first_unit + tile.rows.units;
#pragma unroll 1
    for (int unit = tile.rows.first_unit; unit < end; ++unit) {
      p_.merge_parts[memory_.states[unit] + states_before(tile.level)[unit] + split] = row;
      row += memory_.merged_rows[unit];
    }
    return first;
  }

 private:
  void assign_merges() {
    // parts of merges in the lower 32 bits, merges in the upper
    auto states_of = [&](int unit) {
      int states = memory_.merged_rows[unit] ? memory_.states[unit] : 0;
      return static_cast<Cost>(states > 0) << 32 | static_cast<Cost>(states);
    };
    Cost counted = cta_.scan(units_, states_of, [&](int unit, Cost before, Cost own) {
      if (own == 0) return;
      int part = static_cast<int>(before & 0xffffffff), states = static_cast<int>(own & 0xffffffff);
      memory_.states[unit] = part;
      memory_.merged_rows[unit] = write_merge(unit, static_cast<int>(before >> 32), part, states);
    });
    merges_ = static_cast<int>(counted >> 32), merge_parts_ = static_cast<int>(counted & 0xffffffff);
  }

  void assign_rows() {
    auto rows_of_states = [&](int number) {
      const CascadeTile& tile = memory_.tiles[number];
      return tile.part_index >= 0 && tile.partial >= 0 ? static_cast<Cost>(tile.splits) * tile.rows.rows : 0;
    };
    cta_.scan(tiles_, rows_of_states, [&](int number, Cost before, Cost rows) {
      if (rows > 0) memory_.tiles[number].partial = static_cast<int>(before);
    });
  }
};
