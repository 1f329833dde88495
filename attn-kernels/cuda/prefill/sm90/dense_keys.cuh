// How a producer finds keys that are in order. With a list of keys prefill/sm90/listed_keys.cuh takes its place.
#pragma once
#include "prefill/sm90/tma_load.cuh"

// Of a work tile.
template <bool USE_TMA>
class KeyLocator {
  const KernelParams& p_;
  const Sm90Params& w_;
  const Request& request_;
  const KvRange& kv_range_;

 public:
  KeyLocator(const KernelParams& p, const Sm90Params& w, const Request& request, const KvRange& kv_range)
      : p_(p), w_(w), request_(request), kv_range_(kv_range) {}

  // Locates what this lane loads of the KV tile at `key`.
  KvRowLocation locate(int key) const {
    if constexpr (KEYS_PAGED) return locate_tile_part<USE_TMA>(p_, w_, request_, ClampedRange{kv_range_.end()}, key);
    return {};
  }
};
