// Which keys of a segment the rows of several requests may attend to, as attn-core/src/plan/segment_visible.rs. A tile
// class holds for one request, so that requests are classified one by one.
#pragma once
#include "planner/cascade_memory.cuh"
#include "planner/refined_class.cuh"

template <class Variant>
class SegmentKeys {
  const CascadePlanParams& p_;
  const Variant& variant_;
  const CascadeRequest* requests_;

  TileClass class_over(const QueryTile& rows, int kv_token, int first, int last) const {
    return class_of(variant_, make_tile(rows, kv_token, first, last));
  }

  // Calls `then` with the rows of each request that has rows in the tile, and its first key token, until it returns
  // false.
  template <class Then>
  void each_request(const CascadeRows& rows, const Then& then) const {
    int first = rows.first_row, left = rows.rows, group = p_.group.divisor;
#pragma unroll 1
    for (int number = rows.request; left > 0; ++number) {
      const CascadeRequest& request = requests_[number];
      int packed = request.queries * group, own = min(max(packed - first, 0), left);
      if (own > 0) {
        WorkItem tile = {};
        tile.request = number, tile.first_row = first, tile.rows = own;
        tile.qo_token = request.qo_token, tile.qo_len = request.queries, tile.kv_len = request.keys;
        if (!then(query_tile(p_, tile), request.kv_token)) return;
      }
      first = max(first - packed, 0), left -= own;
    }
  }

 public:
  SegmentKeys(const CascadePlanParams& p, const Variant& variant, const CascadeRequest* requests)
      : p_(p), variant_(variant), requests_(requests) {}

  // The blocks of `keys` keys behind position `kv_begin` that some of the rows may attend to: all except a prefix and a
  // suffix that are skipped for every request.
  BlockRange visible(const CascadeRows& rows, int kv_begin, int keys, FastDiv align) const {
    int blocks = ceil_divide(keys, align), of_block = align.divisor;
    if constexpr (Variant::HAS_TILE_CLASS) {
      BlockRange all = {0, 0};
      each_request(rows, [&](const QueryTile& of, int kv_token) {
        auto over = [&](int begin, int end) {
          return class_over(of, kv_token, kv_begin + begin * of_block, kv_begin + min(end * of_block, keys) - 1);
        };
        TileClass whole = over(0, blocks);
        if (whole == TileClass::Skip) return true;
        int begin = 0, end = blocks;
        if (whole != TileClass::Full) {
          begin = most_skipped(blocks - 1, [&](int n) { return over(0, n) == TileClass::Skip; });
          end -= most_skipped(blocks - begin - 1, [&](int n) { return over(blocks - n, blocks) == TileClass::Skip; });
        }
        bool is_first = all.begin == all.end;
        all = {is_first ? begin : min(all.begin, begin), is_first ? end : max(all.end, end)};
        return all.begin > 0 || all.end < blocks;
      });
      return all;
    }
    return {0, blocks};
  }

  // Whether no logit of the rows and the keys first ... last is masked, for every request.
  bool is_full(const CascadeRows& rows, int first, int last) const {
    bool full = true;
    if constexpr (Variant::HAS_TILE_CLASS) {
      each_request(rows, [&](const QueryTile& of, int kv_token) {
        return full = class_over(of, kv_token, first, last) == TileClass::Full;
      });
    }
    return full;
  }

 private:
  // The largest number of blocks, no more than `most`, that are skipped.
  template <class Skips>
  static int most_skipped(int most, const Skips& skips) {
    return most == 0 || skips(most) ? most : bisect(0, most, skips);
  }
};
