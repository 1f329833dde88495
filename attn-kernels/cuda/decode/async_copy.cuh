// cp.async from global into shared memory in decode.
#pragma once
#include "abi/kernel_params.cuh"
#include "arch/ptx.cuh"

class AsyncCopy {
  const KernelParams& p_;
  unsigned long long policy_;  // L2 eviction policy

 public:
  explicit AsyncCopy(const KernelParams& p) : p_(p), policy_(evict_first_policy()) {}

  // Copies a chunk of 4, 8 or 16 bytes.
  template <int BYTES>
  void copy(unsigned to, const char* from) const {
    if constexpr (BYTES == 4)
      cp_async_4(to, from);
    else if constexpr (BYTES == 8)
      cp_async_8(to, from);
    else if (p_.read_once)
      cp_async_16(to, from, policy_);
    else
      cp_async_16(to, from);
  }
};
