// Fast division by a scalar parameter: multiplication by a reciprocal that the host computes
// (attn-kernels/src/splice/divisor.rs). It is exact for every i32 and u32 and saves the tens of instructions of a
// division by a run-time value.
//
// T. Granlund, P. L. Montgomery, "Division by invariant integers using multiplication", PLDI 1994, figures 4.1 and 5.1.
// As in operators.cuh, division by zero gives 0, and i32::MIN / -1 wraps.
#pragma once

#include "lang/number_fn.cuh"

namespace lang {

template <class T>
struct Divisor;

// magic = 2^(32 + shift) / |value| + 1 - 2^32, as an i32. For value 0: magic 0, shift 31.
template <>
struct Divisor<int> {
  int value;
  u32 magic;
  u32 shift;
};

// With l the number of bits of value - 1: magic = 2^32 (2^l - value) / value + 1, shift = l. For value 0: magic 0,
// shift 32.
template <>
struct Divisor<u32> {
  u32 value;
  u32 magic;
  u32 shift;
};

// The generator does not always know operand types, so floats have a divisor too. It divides.
template <>
struct Divisor<float> {
  float value;
};

ATTN_FN int mul_high(int a, int b) {
#ifdef ATTN_HOST
  return int((long long)a * b >> 32);
#else
  return __mulhi(a, b);
#endif
}
ATTN_FN u32 mul_high(u32 a, u32 b) {
#ifdef ATTN_HOST
  return u32(u64(a) * b >> 32);
#else
  return __umulhi(a, b);
#endif
}

ATTN_FN int div_by(int a, const Divisor<int>& by) {
  // The quotient by |value|, at most |a| in magnitude. It is rounded towards zero, then given the divisor's sign.
  int quotient = int(u32(a) + u32(mul_high(a, int(by.magic))));
  u32 sign = u32(by.value >> 31);
  return int(((u32(quotient >> by.shift) - u32(a >> 31)) ^ sign) - sign);
}
ATTN_FN u32 div_by(u32 a, const Divisor<u32>& by) {
  u32 high = mul_high(by.magic, a);
  u32 first = by.shift == 0 ? 0u : 1u;  // uniform over all threads
  return (high + ((a - high) >> first)) >> (by.shift - first);
}
ATTN_FN float div_by(float a, const Divisor<float>& by) { return a / by.value; }

// A remainder by zero is 0. Selecting the dividend compiles to a select, selecting the result would be a branch.
ATTN_FN int rem_by(int a, const Divisor<int>& by) {
  a = by.value == 0 ? 0 : a;
  return int(u32(a) - u32(div_by(a, by)) * u32(by.value));
}
ATTN_FN u32 rem_by(u32 a, const Divisor<u32>& by) {
  a = by.value == 0 ? 0u : a;
  return a - div_by(a, by) * by.value;
}
ATTN_FN float rem_by(float a, const Divisor<float>& by) { return rem(a, by.value); }

ATTN_FN int rem_euclid_by(int a, const Divisor<int>& by) {
  int r = rem_by(a, by);
  return r < 0 ? int(u32(r) + (by.value < 0 ? 0u - u32(by.value) : u32(by.value))) : r;
}
ATTN_FN u32 rem_euclid_by(u32 a, const Divisor<u32>& by) { return rem_by(a, by); }
ATTN_FN float rem_euclid_by(float a, const Divisor<float>& by) { return rem_euclid(a, by.value); }

ATTN_FN int div_euclid_by(int a, const Divisor<int>& by) {
  int q = div_by(a, by);
  int r = int(u32(a) - u32(q) * u32(by.value));
  return by.value == 0 || r >= 0 ? q : by.value > 0 ? int(u32(q) - 1u) : int(u32(q) + 1u);
}
ATTN_FN u32 div_euclid_by(u32 a, const Divisor<u32>& by) { return div_by(a, by); }
ATTN_FN float div_euclid_by(float a, const Divisor<float>& by) { return div_euclid(a, by.value); }

}  // namespace lang
