// Operand element types of the two GEMMs: QkElem of Q K^T, and PvElem of P V.
//
// K that a variant transforms is preprocessed, and Q is transformed in shared memory; both are then f16 even if the
// tensors are bf16. f16 has as many bytes and eight times the precision; a rotary embedding rounded to bf16 would move
// logits by about 2^-8. fp8 becomes f16, which represents it exactly. Values past 65504 saturate: their softmax is
// meaningless anyway.
#pragma once
#include "arch/element.cuh"
#include "memory/row.cuh"

using QkElem = Choose<Variant::HAS_KEY_TRANSFORM || IS_FP8<KvElem>, f16, QoElem>;
// P and V; also K as stored, where fp8 was converted to 16 bits.
using PvElem = Choose<IS_FP8<KvElem>, f16, KvElem>;

constexpr float F16_MAX = 65504.f;

// Clamps to the range of f16; NaN stays NaN.
inline float saturate_f16(float x) { return x > F16_MAX ? F16_MAX : x < -F16_MAX ? -F16_MAX : x; }

// Packs the eight-th group of eight values of a row into 16 bytes of E.
template <class E, class R>
inline uint4 pack_saturated(const R& row, int eight = 0) {
  const float* x = row.x + 8 * eight;
  if constexpr (SAME<E, f16>)
    return {pack2_f16_satfinite(x[0], x[1]), pack2_f16_satfinite(x[2], x[3]), pack2_f16_satfinite(x[4], x[5]),
            pack2_f16_satfinite(x[6], x[7])};
  return pack<E>(row, eight);
}
