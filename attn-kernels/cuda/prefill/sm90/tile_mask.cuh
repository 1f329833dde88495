// Which KV tiles the consumers of sm_90 prefill mask.
#pragma once
#include "prefill/sm90/pipeline.cuh"
#include "softmax/mask.cuh"

// Whether tiles after the first one of an item may need a mask: only the first one extends past the last key, unless
// keys of a list are missing. Even untaken mask instructions cost 2 to 4 %.
constexpr bool MASK_IN_LOOP = Variant::HAS_LOGITS_MASK || Variant::HAS_KV_LIST;
// Whether a tile of keys is not proven to be unmasked: by its class, or by the positions of listed keys.
inline bool needs_mask(const ScoreTile& tile, const PipelineTile& of, int part) {
  if (of.full(part)) return false;
  return !Variant::HAS_KV_LIST || !listed_tile_is_full(tile);
}
