// Methods of f32 that few variants call, beside float_fn.cuh: only variants that call one have it in their text.
#pragma once

namespace lang {

ATTN_FN float sinh(float x) { return ATTN_MATH(sinhf)(x); }
ATTN_FN float cosh(float x) { return ATTN_MATH(coshf)(x); }
ATTN_FN float asin(float x) { return ATTN_MATH(asinf)(x); }
ATTN_FN float acos(float x) { return ATTN_MATH(acosf)(x); }
ATTN_FN float atan(float x) { return ATTN_MATH(atanf)(x); }
ATTN_FN float atan2(float y, float x) { return ATTN_MATH(atan2f)(y, x); }
ATTN_FN float hypot(float x, float y) { return ATTN_MATH(hypotf)(x, y); }
ATTN_FN float cbrt(float x) { return ATTN_MATH(cbrtf)(x); }
ATTN_FN float erf(float x) { return ATTN_MATH(erff)(x); }

}  // namespace lang
