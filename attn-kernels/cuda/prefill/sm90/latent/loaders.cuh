// The loaders of latent attention. Values are the first columns of the keys, so that a tile is loaded once: those that
// warpgroup 0 multiplies P with by the loader of V, the others by that of K. Each half has mbarriers of its own, and is
// loaded as soon as the warpgroup that reads it last is done.
#pragma once
#include "prefill/fragments.cuh"
#include "prefill/sm90/smem_tiles.cuh"
#include "prefill/sm90/tma_load.cuh"

static_assert(SAME<QoElem, KvElem> || IS_FP8<KvElem>, "Q and K have one element type, unless K is preprocessed");
static_assert(!V_PREPROCESSED && K_PREPROCESSED == IS_FP8<KvElem>, "K is preprocessed where it is fp8");
static_assert(COLUMN_WARPS == 2 && COLUMNS % 64 == 0 && HEAD_DIM_QK >= HEAD_DIM_VO, "values are two halves of panels");

template <bool USE_TMA>
using KLoader = TileLoader<KV_PAGED && !K_PREPROCESSED, USE_TMA, HEAD_DIM_QK - COLUMNS, false, COLUMNS>;
template <bool USE_TMA>
using ColumnsOfV = TileLoader<KV_PAGED && !K_PREPROCESSED, USE_TMA, COLUMNS, true>;
// From K, which may be preprocessed.
template <bool USE_TMA>
struct VLoader : ColumnsOfV<USE_TMA> {
  VLoader(const Sm90Params& w, const TensorMap&, const Strided& v, int base, int kv_head)
      : ColumnsOfV<USE_TMA>(w, w.k, v, base, kv_head) {}
};

// Token of position 0 of a request's values, as VLoader takes it.
inline int value_base(const Request& request) { return key_base<K_PREPROCESSED>(request); }

// Before the first work tile, writes what no load writes.
inline void prepare_v_tiles(const SmemTiles&) {}
