// Tiles of queries, keys and values on their way to shared memory: in boxes, which the hardware copies (TMA); keys and values row by row where pages are no boxes.
#pragma once
#include "arch/mbarrier.cuh"
#include "memory/smem_tile.cuh"

// A box of a tensor, 64 elements a row, chunks permuted as in `SharedTile`; what is outside of the tensor becomes 0. The barrier counts its bytes.
inline void copy_box(unsigned shared, const TensorMap& map, unsigned barrier, int column, KeyPlace place, int head) {
  asm volatile("cp.async.bulk.tensor.4d.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1, {%2, %3, %4, %5}], [%6];" ::"r"(shared),
               "l"(&map), "r"(column), "r"(place.slot), "r"(head), "r"(place.page), "r"(barrier)
               : "memory");
}

// A tile of packed query rows, the first of which is `first`, by one thread.
inline void copy_query_boxes(QueryTileRows to, const TensorMap& map, unsigned barrier, const RowIndex& first) {
  arrive_expecting(barrier, to.BYTES);
#pragma unroll
  for (int panel = 0; panel < to.BYTES / to.PANEL_BYTES; ++panel)
    copy_box(to.base + panel * to.PANEL_BYTES, map, barrier, 64 * panel, {0, first.qo_head}, first.qo_token);
}

// How a launch copies keys and values: in boxes; or row by row what is in pages that are no boxes, known once it is launched.
inline bool in_boxes(const WarpgroupParams& w) { return !KEYS_IN_POOL || w.box_rows; }

// Boxes of keys are brought by half of the warps that copy, those of values by the others, so that neither waits for room for the other. A lane's operands of a box take the
// time, so that warps take turns: the first box is the first one's, the next one the next one's.
constexpr int BOX_WARPS = COPY_WARPS / 2;
static_assert(static_cast<int>(CopyWarp::KEYS) == 0 && static_cast<int>(CopyWarp::VALUES) == BOX_WARPS, "of each half the first warp announces");
inline int box_warp() { return copy_thread() / 32 % BOX_WARPS; }
inline bool brings_values() { return copy_thread() / 32 >= BOX_WARPS; }
// This lane's box of a tile.
inline int my_box() { return box_warp() + threadIdx.x % 32 * BOX_WARPS; }

// Keys as they are counted, before `last_end`: what copies of rows ask of a span.
struct KeysUpTo {
  int last_end;
  static int position(int key) { return key; }
  int existing(int key) const { return min(key, last_end - 1); }
};

// Looks up this lane's box, or row, of the tile at `key`, of keys in a pool.
template <bool BOXES>
inline FoundRow find_part(const KernelParams& p, const WarpgroupParams& w, const Request& request, int end, int key) {
  if constexpr (!BOXES) return find_row(p, request, KeysUpTo{end}, key, nullptr);
  int first = my_box() * w.box_rows, position = key + first;
  FoundRow found = {position, {-1, 0}};  // there is no page -1: zeros
  if (first < TILE_KEYS && position < end) found.place = find_key<true>(p, request, page_row(p, request), position);
  return found;
}

// Copies the keys (or values) of one request and KV head, in boxes.
template <bool PAGED, int DIM, bool VALUES>
class BoxFeed {
  using To = SharedTile<TILE_KEYS, DIM>;
  const TensorMap* map_;
  int rows_;  // of a box
  int base_;  // of keys that are not in pages, the token of position 0
  int head_;

 public:
  BoxFeed(const WarpgroupParams& w, const TensorMap& map, const Strided&, int base, int kv_head)
      : map_(&map), rows_(PAGED ? w.box_rows : TILE_KEYS), base_(base), head_(kv_head) {}

  static constexpr bool IN_BOXES = true;
  // Threads that arrive for a tile: who announces it.
  static constexpr int ARRIVALS = 1;
  // Bytes that the barrier counts.
  static constexpr unsigned BYTES = To::BYTES;

  void copy(To to, unsigned barrier, int, int key, FoundRow found) const {
    int first = my_box() * rows_;
    if (first >= TILE_KEYS) return;
    KeyPlace place = PAGED ? found.place : KeyPlace{0, base_ + key};
#pragma unroll
    for (int panel = 0; panel < (DIM + 63) / 64; ++panel)
      copy_box(to.base + panel * To::PANEL_BYTES + first * 128, *map_, barrier, 64 * panel, place, head_);
  }
  // Whether this warp takes part in a tile, with keys or without: the first one announces it, others have boxes of keys that are there, or nothing to do. Who takes no
  // part must not wait for room: nobody waits for it, and a whole round of the ring may have gone by.
  bool takes_part(bool keys) const { return brings_values() == VALUES && (box_warp() == 0 || (keys && box_warp() * rows_ < TILE_KEYS)); }
  // Instead of a copy.
  static void skip(unsigned) {}
};

// The same, row by row.
template <bool PAGED, int DIM>
class RowFeed {
  const Strided* tensor_;
  int base_;
  int head_;

 public:
  RowFeed(const WarpgroupParams&, const TensorMap&, const Strided& t, int base, int kv_head) : tensor_(&t), base_(base), head_(kv_head) {}
  static constexpr bool IN_BOXES = false;
  static constexpr int ARRIVALS = 1 + 32 * COPY_WARPS;
  static constexpr unsigned BYTES = 0;

  void copy(SharedTile<TILE_KEYS, DIM> to, unsigned barrier, int end, int key, FoundRow found) const {
    KeyTileCopy<PAGED>(*tensor_, base_, head_).copy(to, KeysUpTo{end}, key, found);  // made anew: registers are scarcer than instructions
    arrive_when_copied(barrier);
  }
  static constexpr bool takes_part(bool) { return true; }
  static void skip(unsigned barrier) { arrive_at(barrier); }
};

template <bool PAGED, bool BOXES, int DIM, bool VALUES>
using TileFeed = typename Choose<BOXES || !PAGED, BoxFeed<PAGED, DIM, VALUES>, RowFeed<PAGED, DIM>>::type;
template <bool BOXES>
using KeyFeed = TileFeed<KV_PAGED && !KEY_PRE_PASS, BOXES, HEAD_DIM, false>;
template <bool BOXES>
using ValueFeed = TileFeed<KV_PAGED && !VALUE_PRE_PASS, BOXES, VALUE_DIM, true>;
