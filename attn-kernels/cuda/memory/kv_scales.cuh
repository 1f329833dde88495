// What the scales of a cache do: a stored element times its scales is what it stands for. Hooks of keys and values are shown that; without
// hooks, elements are multiplied as they are stored, and the scales are taken in with what the products are multiplied by anyway.
#pragma once

#include "abi/kernel_params.cuh"

// What stored keys (values) of a head are multiplied by.
inline float key_scale(const KernelParams& p, int kv_head) { return p.k_scales ? p.k_scale * p.k_scales[kv_head] : p.k_scale; }
inline float value_scale(const KernelParams& p, int kv_head) { return p.v_scales ? p.v_scale * p.v_scales[kv_head] : p.v_scale; }

// What a product of query and key, as they meet, is multiplied by: a logit. Positive.
inline float logit_unit(const KernelParams& p, int kv_head) {
  return p.sm_scale * (Variant::HAS_KEY_TRANSFORM ? 1.f : key_scale(p, kv_head));
}
// What a sum of weighted values is multiplied by.
inline float value_unit(const KernelParams& p, int kv_head) {
  return Variant::HAS_VALUE_TRANSFORM ? 1.f : value_scale(p, kv_head);
}
