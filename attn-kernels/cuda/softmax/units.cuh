// Units of S and of row_max, the threshold of lazy rescaling (FlashAttention-4), and where biases are added.
#pragma once
#include "softmax/weight.cuh"

// Lazy rescaling: a stale max scales P and row_sum alike. So O is rescaled only when a row's max grows by more than 8
// in the exponent (a factor of 2^8 in P); at once where a hook is shown the max, or tiles are compared with it. A warp
// decides for all of its rows, so that a row whose bits depend on no other is rescaled at once too.
constexpr float RESCALE_THRESHOLD =
    ROW_INVARIANT || SKIP_SOFTMAX || Variant::HAS_OUTPUT_TRANSFORM || CUSTOM_WEIGHT ? 0.f : 8.f;

using BiasRow = decltype(Variant().logits_bias_row(LogitIndex()));
template <class Row>
constexpr bool LOADS_PAIRS = false;
template <>
constexpr bool LOADS_PAIRS<lang::ElementRow<float>> = true;
template <>
constexpr bool LOADS_PAIRS<lang::ElementRow<lang::F16>> = true;
template <>
constexpr bool LOADS_PAIRS<lang::ElementRow<lang::Bf16>> = true;

// Where a term that is only added to logits enters, at the least cost. sm_90: a bias affine in the key is evaluated
// once per row of a tile and costs one FMA per element, or goes into the exponent; elements of a parameter tensor that
// are contiguous along the keys are loaded in pairs, overlapped with gemm_qk; neither for keys of a list, which are
// scattered. Anything else initialises the accumulator of gemm_qk, in units of Q K^T, so that S is not touched again;
// not of long rows of WGMMA, each step of which truncates a sum as large as the bias.
constexpr bool BIAS_OF_ROWS = SM90_PREFILL && !Variant::HAS_KV_LIST && !Variant::HAS_WEIGHT;
constexpr bool BIAS_AFFINE = BIAS_OF_ROWS && Variant::HAS_LOGITS_SLOPE;
constexpr bool BIAS_TENSOR_ROWS = BIAS_OF_ROWS && Variant::HAS_LOGITS_BIAS_ROW && LOADS_PAIRS<BiasRow>;
constexpr bool LONG_ROWS = SM90_PREFILL && HEAD_DIM_QK > 256;
constexpr bool BIAS_IN_ACCUMULATOR =
    Variant::HAS_LOGITS_BIAS && !Variant::HAS_WEIGHT && !BIAS_AFFINE && !BIAS_TENSOR_ROWS && !LONG_ROWS;
// Hooks take scaled logits; without hooks the scale is folded into the exponent.
constexpr bool SCALE_LOGITS =
    (Variant::HAS_LOGITS_TRANSFORM && !BIAS_IN_ACCUMULATOR && !BIAS_AFFINE && !BIAS_TENSOR_ROWS) || Variant::HAS_WEIGHT;

// The bits of a masked element. With a custom weight -inf can be an ordinary logit: a NaN that no arithmetic produces
// then stands for masked; fmaxf ignores it.
constexpr unsigned MASKED_BITS = Variant::PLAIN ? 0u : CUSTOM_WEIGHT ? 0xffdeadedu : 0xff800000u;
