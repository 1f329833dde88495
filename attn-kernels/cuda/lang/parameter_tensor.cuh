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
struct Element {
  using Value = T;
  static ATTN_FN T read(const T* p, long long i) { return load(p + i); }
};
template <>
struct Element<bool> {
  using Value = bool;
  static ATTN_FN bool read(const bool* p, long long i) { return load((const unsigned char*)p + i) != 0; }
};
template <>
struct Element<F16> {
  using Value = float;
  static ATTN_FN float read(const F16* p, long long i) { return half_to_float(load(&p[i].bits)); }
};
template <>
struct Element<Bf16> {
  using Value = float;
  static ATTN_FN float read(const Bf16* p, long long i) { return from_bits(u32(load(&p[i].bits)) << 16); }
};
template <>
struct Element<F8E4M3> {
  using Value = float;
  static ATTN_FN float read(const F8E4M3* p, long long i) {
    u32 bits = load(&p[i].bits), size = bits & 0x7f;
    u32 whole = size == 0x7f ? 0x7fc00000u : to_bits(from_bits(size << 20) * 0x1p120f);
    return from_bits(whole | (bits & 0x80) << 24);
  }
};
template <>
struct Element<F8E5M2> {
  using Value = float;
  // the bits are the upper half of an f16
  static ATTN_FN float read(const F8E5M2* p, long long i) {
    return half_to_float((unsigned short)(u32(load(&p[i].bits)) << 8));
  }
};
template <>
struct Element<PackedBits> {
  using Value = bool;
  static ATTN_FN bool read(const PackedBits* p, long long i) { return load(&p[i >> 3].eight) >> (i & 7) & 1; }
};

ATTN_FN int clamp_index(int i, int extent) { return i < 0 ? 0 : i < extent ? i : extent - 1; }

// Appends an index to the flat index `at` of the preceding axes.
ATTN_FN long long flat_index(long long at, int i, int extent) { return at * extent + clamp_index(i, extent); }

// ---- output tensors ----

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

template <class T>
struct Tensor0 {
  using E = lang::Element<T>;
  const T* data;
  ATTN_FN typename E::Value operator()() const { return E::read(data, 0); }
};

// `row_number` is the flat index of all axes but the last.

template <class T>
struct Tensor1 {
  using E = lang::Element<T>;
  const T* data;
  int shape0, pad;
  ATTN_FN long long row_number() const { return 0; }
  ATTN_FN typename E::Value operator[](int i) const { return E::read(data, lang::flat_index(row_number(), i, shape0)); }
  ATTN_FN lang::ElementRow<T> row() const { return {data + row_number() * shape0, shape0}; }
};

template <class T>
struct Tensor2 {
  using E = lang::Element<T>;
  const T* data;
  int shape0, shape1;
  ATTN_FN long long row_number(int i) const { return lang::clamp_index(i, shape0); }
  ATTN_FN typename E::Value operator()(int i, int j) const {
    return E::read(data, lang::flat_index(row_number(i), j, shape1));
  }
  ATTN_FN lang::ElementRow<T> row(int i) const { return {data + row_number(i) * shape1, shape1}; }
};

template <class T>
struct Tensor3 {
  using E = lang::Element<T>;
  const T* data;
  int shape0, shape1, shape2, pad;
  ATTN_FN long long row_number(int i, int j) const { return lang::flat_index(lang::clamp_index(i, shape0), j, shape1); }
  ATTN_FN typename E::Value operator()(int i, int j, int k) const {
    return E::read(data, lang::flat_index(row_number(i, j), k, shape2));
  }
  ATTN_FN lang::ElementRow<T> row(int i, int j) const { return {data + row_number(i, j) * shape2, shape2}; }
};

template <class T>
struct Tensor4 {
  using E = lang::Element<T>;
  const T* data;
  int shape0, shape1, shape2, shape3;
  ATTN_FN long long row_number(int i, int j, int k) const {
    return lang::flat_index(lang::flat_index(lang::clamp_index(i, shape0), j, shape1), k, shape2);
  }
  ATTN_FN typename E::Value operator()(int i, int j, int k, int l) const {
    return E::read(data, lang::flat_index(row_number(i, j, k), l, shape3));
  }
  ATTN_FN lang::ElementRow<T> row(int i, int j, int k) const { return {data + row_number(i, j, k) * shape3, shape3}; }
};

// Output tensors: a store outside of the tensor is dropped.

struct OutTensor1 {
  float* data;
  int shape0, pad;
  ATTN_FN float* at(int i) const { return lang::inside(i, shape0) ? data + i : nullptr; }
  ATTN_FN void store(float x, int i) const {
    if (float* p = at(i)) *p = x;
  }
  ATTN_FN void atomic_max(float x, int i) const {
    if (float* p = at(i)) lang::max_in_place(p, x);
  }
};

struct OutTensor2 {
  float* data;
  int shape0, shape1;
  ATTN_FN float* at(int i, int j) const {
    if (!lang::inside(i, shape0) || !lang::inside(j, shape1)) return nullptr;
    return data + ((long long)i * shape1 + j);
  }
  ATTN_FN void store(float x, int i, int j) const {
    if (float* p = at(i, j)) *p = x;
  }
  ATTN_FN void atomic_max(float x, int i, int j) const {
    if (float* p = at(i, j)) lang::max_in_place(p, x);
  }
};

struct OutTensor3 {
  float* data;
  int shape0, shape1, shape2, pad;
  ATTN_FN float* at(int i, int j, int k) const {
    if (!lang::inside(i, shape0) || !lang::inside(j, shape1) || !lang::inside(k, shape2)) return nullptr;
    return data + (((long long)i * shape1 + j) * shape2 + k);
  }
  ATTN_FN void store(float x, int i, int j, int k) const {
    if (float* p = at(i, j, k)) *p = x;
  }
  ATTN_FN void atomic_max(float x, int i, int j, int k) const {
    if (float* p = at(i, j, k)) lang::max_in_place(p, x);
  }
};

struct OutTensor4 {
  float* data;
  int shape0, shape1, shape2, shape3;
  ATTN_FN float* at(int i, int j, int k, int l) const {
    if (!lang::inside(i, shape0) || !lang::inside(j, shape1)) return nullptr;
    if (!lang::inside(k, shape2) || !lang::inside(l, shape3)) return nullptr;
    return data + ((((long long)i * shape1 + j) * shape2 + k) * shape3 + l);
  }
  ATTN_FN void store(float x, int i, int j, int k, int l) const {
    if (float* p = at(i, j, k, l)) *p = x;
  }
  ATTN_FN void atomic_max(float x, int i, int j, int k, int l) const {
    if (float* p = at(i, j, k, l)) lang::max_in_place(p, x);
  }
};
