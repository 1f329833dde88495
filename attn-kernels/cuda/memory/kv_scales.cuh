// Dequantisation scales of the KV cache: a key or value is the stored element times its scales.
// K and V transforms see dequantised elements. Without a transform the MMAs use stored elements, and the scales are
// folded into the scale of QK^T and into that of the output.
#pragma once

#include "abi/kernel_params.cuh"

// The scale of a head's stored keys, and of its stored values.
inline float key_scale(const KernelParams& p, int kv_head) {
  return p.k_scales ? p.k_scale * p.k_scales[kv_head] : p.k_scale;
}
inline float value_scale(const KernelParams& p, int kv_head) {
  return p.v_scales ? p.v_scale * p.v_scales[kv_head] : p.v_scale;
}

// The factor from the MMA result q . k to a logit: sm_scale, times the key scale unless the K transform applied it.
// Positive.
inline float qk_scale(const KernelParams& p, int kv_head) {
  return p.sm_scale * (Variant::HAS_KEY_TRANSFORM ? 1.f : key_scale(p, kv_head));
}
// The factor from the MMA result P V to the output: the value scale unless the V transform applied it.
inline float output_scale(const KernelParams& p, int kv_head) {
  return Variant::HAS_VALUE_TRANSFORM ? 1.f : value_scale(p, kv_head);
}
