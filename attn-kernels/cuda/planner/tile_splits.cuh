// Splits each Q tile of a list on its own: into equal splits where there are fewer tiles than workers
// (Schedule::LongestFirst), or at fixed multiples of the keys (Schedule::FixedSplit). The splits are those of
// attn-core/src/plan/kv_splits.rs.
#pragma once
#include "arch/reduce.cuh"
#include "planner/kv_splits.cuh"
#include "planner/search.cuh"
#include "planner/visible.cuh"

// A Q tile: its visible KV blocks and its request.
struct SplitTile {
  BlockRange visible;
  int request;
};

inline int blocks_of(const SplitTile& tile) { return tile.visible.end - tile.visible.begin; }

// The items and the cut tiles before a tile.
struct TileStart {
  int item, cut_tile;
};

// An item's tile, the number of its split, its blocks, counted from the tile's first visible one, and the splits of the
// tile.
struct ItemSplit {
  int tile, split;
  unsigned begin, end;
  int count;
};

// The KV range of a split of a tile whose request has `keys` keys.
inline BlockRange keys_of(const SplitTile& tile, const ItemSplit& of, unsigned align, unsigned keys) {
  auto key = [&](unsigned block) { return static_cast<int>(min((tile.visible.begin + block) * align, keys)); };
  return of.begin == of.end ? BlockRange{0, 0} : BlockRange{key(of.begin), key(of.end)};
}

// What the tiles of both parts of a mixed list cost, and the blocks of the longest.
struct PartCosts {
  Cost decode = 0, prefill = 0;
  int longest_decode = 0, longest_prefill = 0;

  // `ends`: where the tiles of the decode part end on its line.
  template <class Cta>
  static PartCosts of(Cta& cta, const MixedPlanParams& p, const SplitTile* decodes, int decode_count,
                      const SplitTile* prefills, int prefill_count, Cost* ends) {
    PartCosts sum;
    Cost of_prefill = 0;
#pragma unroll 1
    for (int first = 0; first < decode_count + prefill_count; first += Cta::THREADS) {
      int number = first + cta.thread(), in_prefill = number - decode_count;
      bool decode = number < decode_count, prefill = !decode && in_prefill < prefill_count;
      int blocks = decode ? blocks_of(decodes[number]) : prefill ? blocks_of(prefills[in_prefill]) : 0;
      Cost cost = decode ? p.decode_item_cost + static_cast<Cost>(blocks) * p.decode_block_cost : 0;
      if (prefill) of_prefill += p.item_cost + static_cast<Cost>(blocks) * p.block_cost;
      if (decode) sum.longest_decode = max(sum.longest_decode, blocks);
      if (prefill) sum.longest_prefill = max(sum.longest_prefill, blocks);
      if (first >= decode_count) continue;
      Cost all, before = sum.decode + cta.exclusive_sum(cost, min(decode_count - first, Cta::THREADS), all);
      sum.decode += all;
      if (decode) ends[number] = before + cost;
    }
    cta.note_max(sum.longest_decode, 0);
    cta.note_max(sum.longest_prefill, 1);
    cta.exclusive_sum(of_prefill, Cta::THREADS, sum.prefill);  // the barrier of the maxima as well
    sum.longest_decode = cta.max_of(0), sum.longest_prefill = cta.max_of(1);
    return sum;
  }
};

template <class Cta>
class TileSplits {
  Cta& cta_;
  const PlanParams& p_;
  const SplitTile* tiles_;
  TileStart* starts_;  // of each tile, if any is cut
  int count_ = 0, items_ = 0, cut_tiles_ = 0;
  bool is_cut_ = false;  // whether a tile may have several items
  unsigned most_ = 1;    // blocks of a split

 public:
  TileSplits(Cta& cta, const PlanParams& p, const SplitTile* tiles, TileStart* starts)
      : cta_(cta), p_(p), tiles_(tiles), starts_(starts) {}

  int items() const { return items_; }
  int cut_tiles() const { return cut_tiles_; }
  // The cut tiles before one that is cut.
  int cut_tiles_before(int tile) const { return starts_[tile].cut_tile; }
  int first_item(int tile) const { return !is_cut_ ? tile : tile < count_ ? starts_[tile].item : items_; }
  int count_of(int tile) const { return is_cut_ ? lang::kv_splits::count(splits_of(tiles_[tile])) : 1; }

  // Splits `count` tiles, the longest of `longest` blocks, among `workers` workers.
  void split(int count, unsigned longest, unsigned workers) {
    count_ = items_ = count;
    is_cut_ = p_.fixed_split_blocks > 0 || static_cast<unsigned>(count) < workers;
    if (!is_cut_) return;
    if (p_.fixed_split_blocks == 0) most_ = longest_split(longest, workers);
    count_items();
  }

  ItemSplit of(int index) const {
    if (!is_cut_) return {index, 0, 0, static_cast<unsigned>(blocks_of(tiles_[index])), 1};
    int tile = partition_point(count_, [&](unsigned other) { return starts_[other].item <= index; }) - 1;
    int split = index - starts_[tile].item;
    lang::kv_splits::KvSplits splits = splits_of(tiles_[tile]);
    unsigned begin = lang::kv_splits::split_begin(splits, split), end = lang::kv_splits::split_end(splits, split);
    return {tile, split, begin, end, static_cast<int>(lang::kv_splits::count(splits))};
  }

 private:
  lang::kv_splits::KvSplits splits_of(const SplitTile& tile) const {
    unsigned begin = tile.visible.begin, end = tile.visible.end;
    if (p_.fixed_split_blocks > 0) return lang::kv_splits::at_multiples(begin, end, p_.fixed_split_blocks);
    return lang::kv_splits::equal(begin, end, most_, p_.min_split_blocks);
  }

  // The blocks of the longest split: the fewest for which there are no more items than workers. Each warp tries a
  // length, so that most searches take one round.
  unsigned longest_split(unsigned longest, unsigned workers) {
    constexpr unsigned WARPS = Cta::THREADS / 32;
    unsigned yes = max(longest, 1u), no = p_.min_split_blocks - 1, warp = cta_.thread() / 32;
#pragma unroll 1
    while (yes > no + 1) {
      Cost range = yes - no;
      auto length = [&](unsigned n) { return no + static_cast<unsigned>(range * (n + 1) / (WARPS + 1)); };
      unsigned items = 0, most = length(warp);
#pragma unroll 1
      for (int tile = cta_.thread() % 32; tile < count_; tile += 32)
        items += lang::kv_splits::splits_of(blocks_of(tiles_[tile]), max(most, 1u));
      items = sum_of_neighbours<32>(items);
      bool fits = most > no && items <= workers && cta_.thread() % 32 == 0;
      Cost fitting;
      cta_.exclusive_sum(fits, Cta::THREADS, fitting);
      unsigned first = WARPS - static_cast<unsigned>(fitting);  // that fits: longer splits make fewer items
      unsigned below = first > 0 ? length(first - 1) : no;
      if (fitting > 0) yes = length(first);
      no = below;
    }
    return yes;
  }

  // Numbers items and cut tiles by a prefix sum over the tiles.
  void count_items() {
    // items in the lower 32 bits, cut tiles in the upper
    auto items = [&](int tile) {
      unsigned splits = lang::kv_splits::count(splits_of(tiles_[tile]));
      return static_cast<Cost>(splits > 1) << 32 | splits;
    };
    Cost counted = cta_.scan(count_, items, [&](int tile, Cost before, Cost) {
      starts_[tile] = {static_cast<int>(before & 0xffffffff), static_cast<int>(before >> 32)};
    });
    items_ = static_cast<int>(counted & 0xffffffff), cut_tiles_ = static_cast<int>(counted >> 32);
    cta_.sync();
  }
};
