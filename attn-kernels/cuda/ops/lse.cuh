// attn_scale_lse: log-sum-exps times a number, in place: from one base to another.
#pragma once
#include "ops/index.cuh"

struct ScaleLseParams {
  float* lse;
  long long token, head;  // strides
  long long count;        // tokens * heads
  FastDiv heads;
  float factor;
};

extern "C" __global__ void __launch_bounds__(OP_THREADS) attn_scale_lse(const __grid_constant__ ScaleLseParams p) {
  long long i = static_cast<long long>(blockIdx.x) * OP_THREADS + threadIdx.x;
  if (i >= p.count) return;
  Split at = split(i, p.heads);
  float* x = p.lse + static_cast<long long>(at.quotient) * p.token + at.rest * p.head;
  *x *= p.factor;
}
