// Parameter tensors: row-major tensors of rank 0 to 4 that a variant reads or writes by index. Reads clamp an index
// into its extent, as on the CPU; writes outside are dropped. The host writes the structs
// (attn-kernels/src/splice/variant/member.rs): a pointer, the extents, and padding to a multiple of 8 bytes.
#pragma once

#include "lang/math.cuh"

namespace lang {

// ---- elements: see attn-core/src/lang/param_tensor/element.rs ----

// Floats of 16 and 8 bits are read as float.
struct F16 {
  unsigned short bits;
};
struct Bf16 {
  unsigned short bits;
};
struct F8E4M3 {
  unsigned char bits;
};
struct F8E5M2 {
  unsigned char bits;
};
// Eight bools, the first in the lowest bit. They are read one at a time.
struct PackedBits {
  unsigned char eight;
};

template <class T>
ATTN_FN T load(const T* p) {
#ifdef ATTN_HOST
  return *p;
#else
  return __ldg(p);
#endif
}

ATTN_FN float half_to_float(unsigned short bits) {
#ifdef ATTN_HOST
  // the exponent bias is 15; that of a float is 127
  u32 size = u32(bits & 0x7fff) << 13;
  u32 whole = size >= 0x0f800000u ? size | 0x7f800000u : to_bits(from_bits(size) * 0x1p112f);
  return from_bits(whole | u32(bits & 0x8000) << 16);
#else
  float x;
  asm("cvt.f32.f16 %0, %1;" : "=f"(x) : "h"(bits));
  return x;
#endif
}

// Reads element `i`.
template <class T>
ATTN_FN T read_element(const T* p, long long i) {
  return load(p + i);
}
ATTN_FN bool read_element(const bool* p, long long i) { return load((const unsigned char*)p + i) != 0; }
ATTN_FN float read_element(const F16* p, long long i) { return half_to_float(load(&p[i].bits)); }
ATTN_FN float read_element(const Bf16* p, long long i) { return from_bits(u32(load(&p[i].bits)) << 16); }
ATTN_FN float read_element(const F8E4M3* p, long long i) { return float_of_e4m3(load(&p[i].bits)); }
// the bits are the upper half of an f16
ATTN_FN float read_element(const F8E5M2* p, long long i) {
  return half_to_float((unsigned short)(u32(load(&p[i].bits)) << 8));
}
ATTN_FN bool read_element(const PackedBits* p, long long i) { return load(&p[i >> 3].eight) >> (i & 7) & 1; }

ATTN_FN int clamp_index(int i, int extent) { return i < 0 ? 0 : i < extent ? i : extent - 1; }

// The flat index along the first axes of a shape, of an index for each.
template <class... I>
ATTN_FN long long flat_index(const int* shape, I... i) {
  long long at = 0;
  ((at = at * *shape + clamp_index(i, *shape), ++shape), ...);
  return at;
}

ATTN_FN bool inside(int i, int extent) { return u32(i) < u32(extent); }

// Atomic float max by the order of the bits: as int for non-negative x, as reversed u32 for negative x. A NaN in memory
// stays, a NaN `x` is ignored.
ATTN_FN void max_in_place(float* p, float x) {
  if (x != x) return;
  u32 bits = to_bits(x);
#ifdef ATTN_HOST
  u32 there = to_bits(*p);
  if (bits >> 31 ? bits < there : int(bits) > int(there)) *p = x;
#else
  if (bits >> 31)
    ::atomicMin((u32*)p, bits);
  else
    ::atomicMax((int*)p, int(bits));
#endif
}

// A row of a tensor: the elements along the last axis.
template <class T>
struct ElementRow {
  const T* data;
  int extent;
};

}  // namespace lang

// `shape` has the extents, padded to whole 8 bytes.
template <class T, int RANK>
struct Tensor {
  const T* data;
  int shape[(RANK + 1) / 2 * 2];

  // An element, by an index for each axis.
  template <class... I>
  ATTN_FN auto operator()(I... i) const {
    return lang::read_element(data, lang::flat_index(shape, i...));
  }
  ATTN_FN auto operator[](int i) const { return (*this)(i); }
  // A row, by an index for each axis but the last.
  template <class... I>
  ATTN_FN lang::ElementRow<T> row(I... i) const {
    return {data + lang::flat_index(shape, i...) * shape[RANK - 1], shape[RANK - 1]};
  }
};
template <class T>
struct Tensor<T, 0> {
  const T* data;
  ATTN_FN auto operator()() const { return lang::read_element(data, 0); }
};
template <class T>
using Tensor0 = Tensor<T, 0>;
template <class T>
using Tensor1 = Tensor<T, 1>;
template <class T>
using Tensor2 = Tensor<T, 2>;
template <class T>
using Tensor3 = Tensor<T, 3>;
template <class T>
using Tensor4 = Tensor<T, 4>;

// An output tensor: a store outside of it is dropped. Its last indices are those of the element.
template <int RANK>
struct OutTensor {
  float* data;
  int shape[(RANK + 1) / 2 * 2];

  template <class... I>
  ATTN_FN float* at(I... i) const {
    const int* extent = shape;
    if (!(lang::inside(i, *extent++) && ...)) return nullptr;
    extent = shape;
    long long index = 0;
    ((index = index * *extent++ + i), ...);
    return data + index;
  }
  template <class... I>
  ATTN_FN void store(float x, I... i) const {
    if (float* p = at(i...)) *p = x;
  }
  template <class... I>
  ATTN_FN void atomic_max(float x, I... i) const {
    if (float* p = at(i...)) lang::max_in_place(p, x);
  }
};
using OutTensor1 = OutTensor<1>;
using OutTensor2 = OutTensor<2>;
using OutTensor3 = OutTensor<3>;
using OutTensor4 = OutTensor<4>;
