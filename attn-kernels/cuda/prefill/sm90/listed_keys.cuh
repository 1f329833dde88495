// How a producer finds keys of a list, in place of prefill/sm90/dense_keys.cuh. The keys of a block of the list are
// contiguous: where boxes of `Sm90Params::box_rows` keys divide blocks, TMA loads them, and otherwise cp.async rows.
#pragma once
#include "arch/ptx.cuh"
#include "prefill/sm90/tma_load.cuh"

// Of a work tile: this lane's row of a KV tile, which is looked up tile by tile.
template <bool USE_TMA>
class KeyLocator {
  const KernelParams& p_;
  const Request& request_;
  const KvRange& kv_range_;

 public:
  KeyLocator(const KernelParams& p, const Sm90Params&, const Request& request, const KvRange& kv_range)
      : p_(p), request_(request), kv_range_(kv_range) {}

  KvRowLocation locate(int first_key) const { return locate_row(p_, request_, kv_range_, first_key); }
};

// This lane's box. The boxes of as many tiles as fit a warp are looked up at once, since the latency of a look-up is
// about what the consumers need for a tile. Tiles are located in their order, from the last to the first.
template <>
class KeyLocator<true> {
  const KernelParams& p_;
  const Request& request_;
  const KvRange& kv_range_;
  int box_rows_;
  int tile_boxes_;  // boxes of a tile
  int tiles_ = 0;   // tiles that are looked up, and not yet located
  KvRowLocation own_ = {};

  void look_up(int last_tile) {
    tiles_ = 32 / tile_boxes_;
    int lane = threadIdx.x % 32, key = last_tile - (tiles_ - 1) * TILE_KEYS + lane * box_rows_;
    own_.position = key >= 0 && lane < tiles_ * tile_boxes_ ? kv_range_.position(key) : -1;
    own_.keys = 0;
    if (own_.position < 0) return;
    own_.keys = min(box_rows_, min(kv_range_.end() - key, request_.kv_len - own_.position));
    if constexpr (KEYS_PAGED)
      own_.location = locate_key<true>(p_, request_, page_table_row(p_, request_), own_.position);
  }

 public:
  KeyLocator(const KernelParams& p, const Sm90Params& w, const Request& request, const KvRange& kv_range)
      : p_(p), request_(request), kv_range_(kv_range), box_rows_(w.box_rows), tile_boxes_(TILE_KEYS / box_rows_) {}

  KvRowLocation locate(int first_key) {
    if (tma_warp() != 0) return {};
    if (tiles_ == 0) look_up(first_key);
    int lane = threadIdx.x % 32, from = --tiles_ * tile_boxes_ + lane;
    KvRowLocation box = {};
    box.position = __shfl_sync(ALL_LANES, own_.position, from);
    box.keys = __shfl_sync(ALL_LANES, own_.keys, from);
    if constexpr (KEYS_PAGED)
      box.location = {__shfl_sync(ALL_LANES, own_.location.page, from),
                      __shfl_sync(ALL_LANES, own_.location.slot, from)};
    bool none = lane >= tile_boxes_;
    box.full = __all_sync(ALL_LANES, none || box.keys == box_rows_);
    box.cut = __any_sync(ALL_LANES, !none && box.keys > 0 && box.keys < box_rows_);
    return box;
  }
};

// The box that holds a row of a tile: its lane, and the row in it. `box_rows` divides TILE_KEYS, and is a power of two
// or all of them.
inline int box_of_row(const Sm90Params& w, int row) { return row >> (32 - __clz(w.box_rows - 1)); }

// Tells all warps the positions of a tile's keys, -1 where there is no such key.
template <class Loader>
inline void store_positions(const Loader&, int* positions, const Sm90Params& w, const KvRowLocation& own) {
  if constexpr (!Loader::USES_TMA) return store_position(positions, own);
#pragma unroll
  for (int i = 0; i < TILE_KEYS; i += 32) {
    int row = i + threadIdx.x % 32, box = box_of_row(w, row), in_box = row - box * w.box_rows;
    int first = __shfl_sync(ALL_LANES, own.position, box), keys = __shfl_sync(ALL_LANES, own.keys, box);
    if (row < TILE_KEYS) positions[row] = in_box < keys ? first + in_box : -1;
  }
  __syncwarp();
}

// Loads a tile with a box that the request ends in, by one warp. What TMA loads behind the end is not of the request:
// its rows become 0, since 0 * NaN is not 0. `barrier`: of this warp alone, whose phase has `parity`.
template <class Loader, class To>
inline void load_cut_tile(const Loader& loader, To to, unsigned barrier, unsigned parity, const Sm90Params& w,
                          const KvRowLocation& own) {
  if (threadIdx.x % 32 == 0) mbarrier_arrive_expect_tx(barrier, loader.BYTES);
  __syncwarp();
  loader.load(to, barrier, 0, 0, own);
  mbarrier_wait(barrier, parity);
#pragma unroll 1
  for (int i = 0; i < TILE_KEYS; i += 32) {
    int row = i + threadIdx.x % 32, box = box_of_row(w, row);
    int keys = __shfl_sync(ALL_LANES, own.keys, box);
    if (row >= TILE_KEYS || row - box * w.box_rows < keys) continue;
    for (int chunk = loader.FIRST_CHUNK; chunk < loader.END_CHUNK; ++chunk)
      store_shared_16(to.at(row, chunk), make_uint4(0, 0, 0, 0));
  }
  fence_view_async_shared();
  __syncwarp();
}
