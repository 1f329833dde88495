#pragma once
#include "memory/address.cuh"

// Token of position 0 in the transposed values of e4m3 compute: tiles of TILE_KEYS keys, with which each request begins
// anew.
inline int transposed_base(const Request& request) {
  return (request.kv_begin / TILE_KEYS + request.batch) * TILE_KEYS;
}
