// The CUDA side of the variant language: the types and functions that code generated from Rust hooks uses.
//
// Semantics are Rust's: integers wrap, division truncates, shifts are masked, casts from float saturate, min and max
// ignore NaN. The generator emits a plain C++ operator where it means the same (coordinates are below 2^30, so their
// sums and differences cannot overflow) and a call of these functions elsewhere, since NVRTC has no -fwrapv. Integer
// division by zero, a panic in Rust, gives 0. Float + - * / and sqrt round as in Rust, except where products are
// contracted into FMAs. Other functions agree within a few units in the last place (recip: within one).
//
// These headers include none of CUDA or C++. With ATTN_HOST a host compiler compiles the same text, so variants are
// tested without a GPU.
#pragma once

#include "lang/logit_bound.cuh"
#include "lang/parameter_tensor.cuh"
#include "lang/compose.cuh"
#include "lang/divide.cuh"
#include "lang/coordinates.cuh"
#include "lang/int_fn.cuh"
#include "lang/random.cuh"
#include "lang/interval.cuh"
#include "lang/table_interval.cuh"

namespace lang {

// ln(e^a + e^b): the joint logit of two attention sinks.
ATTN_FN float log_add_exp(float a, float b) {
  float larger = max(a, b);
  return larger == -F32_INFINITY ? larger : larger + ln(exp(a - larger) + exp(b - larger));
}

}  // namespace lang
