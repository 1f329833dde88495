// Kernel entry attn_scale_lse: multiplies log-sum-exps by a factor in place, which converts between bases.
#pragma once
#include "ops/index.cuh"
#include "ops/lse_params.cuh"

extern "C" __global__ void __launch_bounds__(OP_THREADS) attn_scale_lse(const __grid_constant__ ScaleLseParams p) {
  long long i = static_cast<long long>(blockIdx.x) * OP_THREADS + threadIdx.x;
  if (i >= p.count) return;
  DivMod at = divmod(i, p.heads);
  float* x = p.lse + static_cast<long long>(at.quotient) * p.token + at.remainder * p.head;
  *x *= p.factor;
}
