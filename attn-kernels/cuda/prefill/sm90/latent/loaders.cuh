// The loaders of latent attention. Values are the first columns of the keys, so that a tile is loaded once: those that
// warpgroup 0 multiplies P with by the loader of V, the others by that of K. Each half has mbarriers of its own, and is
// loaded as soon as the warpgroup that reads it last is done.
#pragma once
#include "prefill/fragments.cuh"
#include "prefill/sm90/latent/decoding_loader.cuh"
#include "prefill/sm90/smem_tiles.cuh"
#include "prefill/sm90/tma_load.cuh"

static_assert(SAME<QoElem, KvElem> || IS_FP8<KvElem>, "Q and K have one element type, unless K is decoded");
static_assert(!V_PREPROCESSED && !K_PREPROCESSED, "K is decoded as it is loaded");
static_assert(COLUMN_WARPS == 2 && COLUMNS % 64 == 0 && HEAD_DIM_QK >= HEAD_DIM_VO, "values are two halves of panels");

template <bool USE_TMA, int DIM, bool VALUES, int FIRST>
using ColumnLoader =
    Choose<KEYS_DECODED, DecodingLoader<DIM, FIRST>, TileLoader<KV_PAGED, USE_TMA, DIM, VALUES, FIRST>>;
template <bool USE_TMA>
using KLoader = ColumnLoader<USE_TMA, HEAD_DIM_QK - COLUMNS, false, COLUMNS>;
template <bool USE_TMA>
using VLoader = ColumnLoader<USE_TMA, COLUMNS, true, 0>;

template <class Loader>
inline Loader column_loader(const KernelParams& p, const Variant& variant, const Sm90Params& w, const Request& request,
                            int kv_head) {
  if constexpr (KEYS_DECODED)
    return {p, variant, request, kv_head};
  else
    return {w, w.k, p.k, ragged_base(request), kv_head};
}
template <bool USE_TMA>
inline KLoader<USE_TMA> key_loader(const KernelParams& p, const Variant& variant, const Sm90Params& w,
                                   const Request& request, int kv_head) {
  return column_loader<KLoader<USE_TMA>>(p, variant, w, request, kv_head);
}
template <bool USE_TMA>
inline VLoader<USE_TMA> value_loader(const KernelParams& p, const Variant& variant, const Sm90Params& w,
                                     const Request& request, int kv_head) {
  return column_loader<VLoader<USE_TMA>>(p, variant, w, request, kv_head);
}

// Before the first work tile, writes what no load writes.
inline void prepare_v_tiles(const SmemTiles&) {}
