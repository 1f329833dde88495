// The loaders of K and V tiles of 16-bit products.
#pragma once
#include "prefill/sm90/smem_tiles.cuh"
#include "prefill/sm90/tma_load.cuh"

static_assert(SAME<QoElem, KvElem> || IS_FP8<KvElem>, "Q and K have one element type, unless K is preprocessed");
static_assert(K_PREPROCESSED == (Variant::HAS_KEY_TRANSFORM || IS_FP8<KvElem>),
              "K is preprocessed where it is transformed or fp8");
static_assert(V_PREPROCESSED == (Variant::HAS_VALUE_TRANSFORM || IS_FP8<KvElem>),
              "V is preprocessed where it is transformed or fp8");
template <bool USE_TMA>
using KLoader = TileLoader<KV_PAGED && !K_PREPROCESSED, USE_TMA, HEAD_DIM_QK, false>;
template <bool USE_TMA>
using VLoader = TileLoader<KV_PAGED && !V_PREPROCESSED, USE_TMA, HEAD_DIM_VO, true>;

template <bool USE_TMA>
inline KLoader<USE_TMA> key_loader(const KernelParams& p, const Variant&, const Sm90Params& w, const Request& request,
                                   int kv_head) {
  return {w, w.k, K_PREPROCESSED ? p.k_pre : p.k, key_base<K_PREPROCESSED>(request), kv_head};
}
template <bool USE_TMA>
inline VLoader<USE_TMA> value_loader(const KernelParams& p, const Variant&, const Sm90Params& w, const Request& request,
                                     int kv_head) {
  return {w, w.v, V_PREPROCESSED ? p.v_pre : p.v, key_base<V_PREPROCESSED>(request), kv_head};
}

// Before the first work tile, writes what no load writes.
inline void prepare_v_tiles(const SmemTiles&) {}
