// The loaders of K and V tiles of 8-bit products.
#pragma once
#include "preprocess/transposed_base.cuh"
#include "prefill/sm90/tma_load.cuh"

// Rows of pairs of elements.
template <bool USE_TMA>
using KLoader = TileLoader<KV_PAGED, USE_TMA, HEAD_DIM_QK / 2, false>;

// Transposed values, whose rows have the keys of a tile.
template <bool USE_TMA>
using VLoader = TmaLoader<false, TILE_KEYS / 2, true>;
static_assert(HEAD_DIM_VO == TILE_KEYS, "as many rows as a tile of K has");

template <bool USE_TMA>
inline KLoader<USE_TMA> key_loader(const KernelParams& p, const Variant&, const Sm90Params& w, const Request& request,
                                   int kv_head) {
  return {w, w.k, p.k, key_base<false>(request), kv_head};
}
template <bool USE_TMA>
inline VLoader<USE_TMA> value_loader(const KernelParams& p, const Variant&, const Sm90Params& w, const Request& request,
                                     int kv_head) {
  return {w, w.v, p.v_pre, transposed_base(request), kv_head};
}
