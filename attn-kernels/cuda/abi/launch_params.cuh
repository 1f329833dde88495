// LaunchParams: the type of the first kernel argument, with the lists of a mixed launch where the kernel has them.
#pragma once
#include "abi/kernel_params.cuh"
#include "arch/element.cuh"

#ifdef ATTN_KV_FORMAT
#include "abi/packed_params.cuh"

using LaunchParams = typename Choose<MIXED, PackedMixedParams, PackedParams>::type;

// The side data of keys and values.
inline const KvSides& kv_sides(const KernelParams& p) { return static_cast<const LaunchParams&>(p).sides; }
#else  // ATTN_KV_FORMAT
using LaunchParams = typename Choose<MIXED, MixedParams, KernelParams>::type;
#endif  // ATTN_KV_FORMAT
