// The loaders of K and V tiles of 8-bit products.
#pragma once
#include "preprocess/transposed_base.cuh"
#include "prefill/sm90/tma_load.cuh"

// Rows of pairs of elements.
template <bool USE_TMA>
using KLoader = TileLoader<KV_PAGED, USE_TMA, HEAD_DIM_QK / 2, false>;

// Loads transposed values, whose rows have the keys of a tile.
struct TransposedLoader : TmaLoader<false, TILE_KEYS / 2, true> {
  using Rows = TmaLoader<false, TILE_KEYS / 2, true>;
  using Rows::Rows;
  static_assert(HEAD_DIM_VO == TILE_KEYS, "as many rows as a tile of K has");

  void load(SmemV to, unsigned barrier, int end, int key, KvRowLocation row) const {
    Rows::load({to.base}, barrier, end, key, row);
  }
};
template <bool USE_TMA>
using VLoader = TransposedLoader;

// Token of position 0 of a request's values, as VLoader takes it.
inline int value_base(const Request& request) { return transposed_base(request); }
