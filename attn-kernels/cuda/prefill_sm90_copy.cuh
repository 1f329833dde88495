// The warpgroup that copies: it takes work, finds the tiles of keys that each piece sees, and brings queries, keys and values. It never waits for arithmetic but for
// room. Keys come a tile before values, since products of queries and keys do.
#pragma once
#include "boxes.cuh"
#include "cursor.cuh"
#include "queries.cuh"
#include "tile_ring.cuh"

// Where tiles are in shared memory.
struct CtaTiles {
  QueryTileRows queries;
  KeyTile keys;
  ValueTile values;
  unsigned outputs;

  KeyTile keys_of(int stage) const { return {keys.base + stage * KeyTile::BYTES}; }
  ValueTile values_of(int stage) const { return {values.base + stage * ValueTile::BYTES}; }
};

// Tickets: which work is next for whoever asks, and how many CTAs have seen the end of it. Both are 0 between launches.
inline unsigned take_ticket(const KernelParams& p) { return gridDim.x + atomicAdd(p.arrivals, 1u); }
inline void return_tickets(const KernelParams& p) {
  if (count_arrival(p.arrivals + 1) == gridDim.x - 1) p.arrivals[0] = p.arrivals[1] = 0;
}

// Copies what an item sees; `n` tiles went before. Gives how many have gone after.
template <bool BOXES>
inline int copy_item(const KernelParams& p, const Variant& variant, const WarpgroupParams& w, const CtaTiles& tiles, const Ring& ring,
                     const WorkItem& item, int kv_head, int number, int n) {
  QueryBlock block(item, kv_head);
  SpanKeys span(p, variant, block, item);
  KeyFeed<BOXES> keys(w, w.k, p.k, key_base<KEY_PRE_PASS>(block.request), kv_head);
  ValueFeed<BOXES> values(w, w.v, p.v, key_base<VALUE_PRE_PASS>(block.request), kv_head);
  bool tells = copy_thread() == 0;
  if (tells) ring.place(number, item, kv_head);
  TileCursor cursor(p, block, item.kv_begin, span.end());
  auto find = [&](int key) {
    if constexpr (KEYS_IN_POOL)
      if (key >= 0) return find_part<BOXES>(p, w, block.request, span, key);
    return FoundRow{};
  };
  bool full = false;
  int key = cursor.next(variant, full), before = -1;
  FoundRow found = find(key), found_before = {};
  auto copy_values = [&](int n) {
    RingPlace at(n);
    wait_barrier(ring.values_read(at.stage), at.round ^ 1);
    if (tells) arrive_expecting(ring.values_there(at.stage), before >= 0 ? values.BYTES : 0);
    if (before >= 0)
      values.copy(tiles.values_of(at.stage), ring.values_there(at.stage), span, before, found_before);
    else
      values.skip(ring.values_there(at.stage));
  };
  // Queries come behind the first keys. Tensor cores see what other threads wrote once those have said so.
  int queries = 0;  // 0: to be copied, 1: on their way, 2: there
  auto finish_queries = [&] {
    if (queries == 2) return;
    queries = 2;
    copy_async_wait<0>();
    fence_shared_for_tensor_cores();
    arrive_at(ring.queries_there());
  };
  bool last;
#pragma unroll 1
  do {
    bool next_full = false;
    int next = cursor.next(variant, next_full);
    FoundRow next_found = find(next);  // on its way while this thread waits for room
    last = next < 0;
    RingPlace at(n);
    wait_barrier(ring.keys_read(at.stage), at.round ^ 1);
    RingTile tile = {key, (full ? RingTile::FULL : 0) | (last ? RingTile::LAST : 0)};
    if (tells) ring.announce(at.stage, tile, key >= 0 ? keys.BYTES : 0);
    if (key >= 0)
      keys.copy(tiles.keys_of(at.stage), ring.keys_there(at.stage), span, key, found);
    else
      keys.skip(ring.keys_there(at.stage));
    if (queries == 0) {
      wait_barrier(ring.queries_read(), number & 1 ^ 1);
      copy_queries<QueryWalk<FIRST_COPY_THREAD, 32 * COPY_WARPS>>(tiles.queries, p, block);
      copy_async_commit();
      queries = 1;
    } else {
      copy_values(n - 1);
      finish_queries();
    }
    before = key;
    found_before = found;
    key = next;
    full = next_full;
    found = next_found;
    ++n;
  } while (!last);
  copy_values(n - 1);
  finish_queries();
  return n;
}

template <bool BOXES>
inline void copy_all(const KernelParams& p, const Variant& variant, const WarpgroupParams& w, const CtaTiles& tiles, const Ring& ring) {
  unsigned work = blockIdx.x, all = w.items * p.kv_heads;
  bool tells = copy_thread() == 0, shares = gridDim.x < all;
  int n = 0, number = 0;
#pragma unroll 1
  for (int turn = 0; work < all; ++turn) {
    unsigned next = all;
    if (shares && tells) next = take_ticket(p);  // on its way meanwhile
    CtaPlace place = cta_place(work, w.items, p.kv_heads);
    const WorkItem& item = p.items[place.item];
    if (item.rows > 0) n = copy_item<BOXES>(p, variant, w, tiles, ring, item, place.kv_head, number++, n);  // or it is room that is not needed
    work = ring.share_next(turn, next, tells);
  }
  RingPlace at(n);
  wait_barrier(ring.keys_read(at.stage), at.round ^ 1);
  if (tells) {
    ring.announce(at.stage, {-1, RingTile::END}, 0);
    if (shares) return_tickets(p);
  }
  KeyFeed<BOXES>::skip(ring.keys_there(at.stage));
}
