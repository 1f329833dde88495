// Division by a scalar parameter. Integers have prepared divisors, made of attn-core/src/lang/divide.rs. Their
// functions are found by the type of the divisor.
#pragma once

#include "lang/number_fn.cuh"
#include "lang/signed_divisor.cuh"
#include "lang/unsigned_divisor.cuh"

namespace lang {

// The generator does not always know operand types, so floats have a divisor too. It divides.
struct FloatDivisor {
  float value;
};

template <class T>
using IntDivisor = Choose<IS_SIGNED<T>, signed_divisor::Divisor, unsigned_divisor::Divisor>;
template <class T>
using Divisor = Choose<IS_FLOAT<T>, FloatDivisor, IntDivisor<T>>;

ATTN_FN float div_by(float a, FloatDivisor by) { return a / by.value; }
ATTN_FN float rem_by(float a, FloatDivisor by) { return rem(a, by.value); }
ATTN_FN float rem_euclid_by(float a, FloatDivisor by) { return rem_euclid(a, by.value); }
ATTN_FN float div_euclid_by(float a, FloatDivisor by) { return div_euclid(a, by.value); }

}  // namespace lang
