// The warpgroup that copies: it takes work, finds the tiles of keys that each piece sees, and brings queries, keys and values. It never waits for arithmetic but for
// room. Keys come a tile before values, since products of queries and keys do, in boxes by warps of their own; queries of the next piece while the last tiles of this one are
// weighed.
#pragma once
#include "prefill/sm90/tma_load.cuh"
#include "prefill/q_loader.cuh"
#include "schedule/tile_scheduler.cuh"

// Where tiles are in shared memory.
struct CtaTiles {
  QueryTileRows queries;
  KeyTile keys;
  ValueTile values;
  unsigned outputs;

  QueryTileRows queries_of(int stage) const { return {queries.base + stage * QueryTileRows::BYTES}; }
  KeyTile keys_of(int stage) const { return {keys.base + stage * KeyTile::BYTES}; }
  ValueTile values_of(int stage) const { return {values.base + stage * ValueTile::BYTES}; }
};

// The warpgroup at work: tiles are numbered through all items, and the values of a tile are copied after the keys of the next one, whatever item that is of.
template <bool BOXES>
class Copier {
  const KernelParams& p_;
  const Variant& variant_;
  const WarpgroupParams& w_;
  const CtaTiles& tiles_;
  const Ring& ring_;
  bool tells_ = is_first_of(CopyWarp::KEYS);
  int tile_ = 0;  // the next one's number
  // Values that are to be copied, of the tile before.
  ValueFeed<BOXES> values_;
  int key_ = -1, end_ = 0;
  FoundRow found_ = {};

  // Those, if there are any: tiles without keys have none.
  void copy_values() {
    if (tile_ == 0 || !values_.takes_part(key_ >= 0)) return;
    RingPlace at(tile_ - 1);
    unsigned barrier = ring_.values_there(at.stage);
    wait_barrier(ring_.values_read(at.stage), at.round ^ 1);
    if (is_first_of(CopyWarp::VALUES)) arrive_expecting(barrier, key_ >= 0 ? values_.BYTES : 0);
    if (key_ >= 0)
      values_.copy(tiles_.values_of(at.stage), barrier, end_, key_, found_);
    else
      values_.skip(barrier);
  }

  FoundRow find(const Request& request, int end, int key) const {
    if constexpr (KEYS_IN_POOL)
      if (key >= 0) return find_part<BOXES>(p_, w_, request, end, key);
    return {};
  }

 public:
  Copier(const KernelParams& p, const Variant& variant, const WarpgroupParams& w, const CtaTiles& tiles, const Ring& ring)
      : p_(p), variant_(variant), w_(w), tiles_(tiles), ring_(ring), values_(w, w.v, p.v, 0, 0) {}

  // `meanwhile` is called once, when there is time.
  template <class Meanwhile>
  void copy_item(const WorkItem& item, int kv_head, int number, Meanwhile meanwhile) {
    QueryBlock block(item, kv_head);
    SpanKeys span(p_, variant_, block, item);
    int end = span.end();
    KeyFeed<BOXES> keys(w_, w_.k, p_.k, key_base<KEY_PRE_PASS>(block.request), kv_head);
    TileCursor<PARTS> cursor(p_, block, item.kv_begin, end);
    TileClasses classes;
    int key = cursor.next(variant_, classes);
    FoundRow found = find(block.request, end, key);
    QueryPlace queries(number);
    bool first = true, last, queries_come = false;
    // Tensor cores see what other threads wrote once those have said so.
    auto finish_queries = [&] {
      copy_async_wait<0>();
      fence_shared_for_tensor_cores();
      arrive_at(ring_.queries_there(queries.stage));
    };
#pragma unroll 1
    do {
      TileClasses next_classes;
      int next = cursor.next(variant_, next_classes);
      last = next < 0;
      if (keys.takes_part(key >= 0)) {
        RingPlace at(tile_);
        unsigned barrier = ring_.keys_there(at.stage);
        wait_barrier(ring_.keys_read(at.stage), at.round ^ 1);
        if (tells_) ring_.announce(at.stage, {key, classes, last}, key >= 0 ? keys.BYTES : 0);
        if (key >= 0)
          keys.copy(tiles_.keys_of(at.stage), barrier, end, key, found);
        else
          keys.skip(barrier);
      }
      copy_values();
      ++tile_;
      if (first) {
        values_ = ValueFeed<BOXES>(w_, w_.v, p_.v, key_base<VALUE_PRE_PASS>(block.request), kv_head);
        end_ = end;
        QueryTileRows to = tiles_.queries_of(queries.stage);
        bool brings = is_first_of(CopyWarp::QUERIES);
        if (!w_.query_boxes || brings) wait_barrier(ring_.queries_read(queries.stage), queries.round ^ 1);
        if (!w_.query_boxes) {
          copy_queries<QueryWalk<FIRST_COPY_THREAD, 32 * COPY_WARPS>>(to, p_, block);
          copy_async_commit();
        } else if (brings) {
          copy_query_boxes(to, w_.q, ring_.queries_there(queries.stage), block.at(p_, 0));
        }
        meanwhile();
      } else if (queries_come) {
        finish_queries();
      }
      queries_come = first && !w_.query_boxes;
      first = false;
      key_ = key;
      found_ = found;
      key = next;
      classes = next_classes;
      found = find(block.request, end, next);
    } while (!last);
    if (queries_come) finish_queries();
  }

  // After all items.
  void end() {
    copy_values();
    if (!KeyFeed<BOXES>(w_, w_.k, p_.k, 0, 0).takes_part(false)) return;
    RingPlace at(tile_);
    wait_barrier(ring_.keys_read(at.stage), at.round ^ 1);
    if (tells_) ring_.announce(at.stage, {-1, RingTile::END}, 0);
    KeyFeed<BOXES>::skip(ring_.keys_there(at.stage));
  }
};

template <bool BOXES>
inline void copy_all(const KernelParams& p, const Variant& variant, const WarpgroupParams& w, const CtaTiles& tiles, const Ring& ring) {
  Copier<BOXES> copier(p, variant, w, tiles, ring);
  WorkTickets work(p, w, ring);
  int number = 0;
  work.fetch(number);
#pragma unroll 1
  while (work.take()) {
    PlacedItem placed = ring.placed(number);
    work.ask();
    if (placed.item.rows > 0) {
      copier.copy_item(placed.item, placed.kv_head, number, [&] { work.fetch(number + 1); });
      ++number;
    } else {  // room that is not needed
      sync_some(COPY_BARRIER, 32 * COPY_WARPS);  // all have read it, and another takes its place
      work.fetch(number);
    }
  }
  copier.end();
  work.end();
}
