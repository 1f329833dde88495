// The language of variants on this side: what the text generated from Rust is made of.
//
// Everything means what it means in Rust: integers wrap, division truncates, shifts are masked, casts from float
// saturate, min and max ignore NaN. Where a plain C++ operator means the same, the generator writes it (index words are
// below 2^30, so their sums and differences cannot overflow); where it may not, it calls a function of these files, since
// NVRTC has no -fwrapv. Integer division by zero, a panic in Rust, gives 0. Of floats, + - * / and sqrt round as in Rust, but
// for products that are contracted into sums; functions agree within a few units in the last place (recip: within one).
//
// No header of CUDA or C++ is included. With ATTN_HOST a host compiler takes the same text: variants are tested without a GPU.
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

// The logit of two sinks together.
ATTN_FN float log_add_exp(float a, float b) {
  float most = max(a, b);
  return most == -F32_INFINITY ? most : most + ln(exp(a - most) + exp(b - most));
}

}  // namespace lang
