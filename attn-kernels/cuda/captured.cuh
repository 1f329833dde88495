// Captured tensors: tables that a variant reads by index. An index outside is clamped into the table, as on the CPU.
// What the host writes into them: attn-kernels/src/splice/variant/args.rs.
#pragma once

#include "math.cuh"

namespace lang {
ATTN_FN int clamp_index(int i, int extent) { return i < 0 ? 0 : i < extent ? i : extent - 1; }
template <class T>
ATTN_FN T load(const T* p) {
#ifdef ATTN_HOST
  return *p;
#else
  return __ldg(p);
#endif
}
}  // namespace lang

template <class T>
struct Tensor1 {
  const T* data;
  int shape0;
  int pad;
  ATTN_FN T operator[](int i) const { return lang::load(data + lang::clamp_index(i, shape0)); }
};

// Row-major.
template <class T>
struct Tensor2 {
  const T* data;
  int shape0;
  int shape1;
  ATTN_FN T operator()(int i, int j) const {
    return lang::load(data + (long long)lang::clamp_index(i, shape0) * shape1 + lang::clamp_index(j, shape1));
  }
};
