// In what unit tensor cores leave logits, and what a running maximum may leave undone.
#pragma once
#include "softmax/weight.cuh"

// A maximum that is a little stale only scales weights and their sum alike. So rows are rescaled not whenever their maximum
// grows, but when it has grown by a factor of 2^8 in weight; not so where a hook is shown the maximum.
constexpr float RESCALE_SLACK = Variant::HAS_OUTPUT_TRANSFORM || MAX_SCALED ? 0.f : 8.f;

using BiasRow = decltype(Variant().logits_bias_row(LogitIndex()));
template <class Row>
constexpr bool BY_TWOS = false;
template <>
constexpr bool BY_TWOS<lang::ElementRow<float>> = true;
template <>
constexpr bool BY_TWOS<lang::ElementRow<lang::F16>> = true;
template <>
constexpr bool BY_TWOS<lang::ElementRow<lang::Bf16>> = true;

// What is only added to logits, and is affine in the key, is asked once a row of a tile, in warpgroups: a multiplication and addition a logit, and the rest goes into the
// exponent. Elements that lie in memory as logits do in a row are read by twos there, beside the product of queries and keys. Anything else that is only added that product
// starts from, in its unit; then logits are not touched again.
constexpr bool BIAS_AFFINE = IN_WARPGROUPS && Variant::HAS_LOGITS_SLOPE && !Variant::HAS_WEIGHT;
constexpr bool BIAS_IN_ROWS = IN_WARPGROUPS && Variant::HAS_LOGITS_BIAS_ROW && !Variant::HAS_WEIGHT && BY_TWOS<BiasRow>;
constexpr bool BIAS_FIRST = Variant::HAS_LOGITS_BIAS && !Variant::HAS_WEIGHT && !BIAS_AFFINE && !BIAS_IN_ROWS;
// Hooks want logits scaled; without any the scale goes into the exponent.
constexpr bool SCALE_LOGITS = (Variant::HAS_LOGITS_TRANSFORM && !BIAS_FIRST && !BIAS_AFFINE && !BIAS_IN_ROWS) || Variant::HAS_WEIGHT;

// What a masked logit becomes, whatever it was. Under MAX_SCALED -inf may be a logit like others, so there it is a NaN that no
// arithmetic makes; a maximum ignores it.
constexpr unsigned MASKED_BITS = Variant::PLAIN ? 0u : MAX_SCALED ? 0xffdeadedu : 0xff800000u;
