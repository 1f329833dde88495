// The element type in which tensor cores multiply queries and keys.
//
// Keys that a variant rewrites are written anew anyway, and so are their queries; then both are f16, also where the tensors are
// bf16: as many bytes, but eight times the precision, without which a rotation in bf16 moves logits by some 2^-8. fp8 becomes f16, which
// holds it.
// What f16 cannot hold saturates: a key or query past 65504 has no softmax to speak of.
#pragma once
#include "arch/element.cuh"
#include "memory/row.cuh"

using LogitElem = typename Choose<Variant::HAS_KEY_TRANSFORM || IS_FP8<KvElem>, f16, QoElem>::type;
// That of weights and values; of stored keys too, where fp8 has become 16 bits.
using WeightElem = typename Choose<IS_FP8<KvElem>, f16, KvElem>::type;

template <class A, class B>
constexpr bool SAME = false;
template <class A>
constexpr bool SAME<A, A> = true;

constexpr float F16_MAX = 65504.f;

// NaN stays NaN.
inline float saturate_f16(float x) { return x > F16_MAX ? F16_MAX : x < -F16_MAX ? -F16_MAX : x; }

// Eight values of a row from registers to 16 bytes of E.
template <class E, class R>
inline uint4 pack_saturated(const R& row, int eight = 0) {
  const float* x = row.x + 8 * eight;
  if constexpr (SAME<E, f16>)
    return {saturated2_f16(x[0], x[1]), saturated2_f16(x[2], x[3]), saturated2_f16(x[4], x[5]), saturated2_f16(x[6], x[7])};
  return pack<E>(row, eight);
}
