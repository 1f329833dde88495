// LaunchParams as in abi/launch_params.cuh, in whose place it is over rows of KV formats: with their side data.
#pragma once
#include "abi/packed_params.cuh"
#include "arch/element.cuh"

using LaunchParams = Choose<MIXED, PackedMixedParams, PackedParams>;

// The side data of keys and values.
inline const KvSides& kv_sides(const KernelParams& p) { return static_cast<const LaunchParams&>(p).sides; }
