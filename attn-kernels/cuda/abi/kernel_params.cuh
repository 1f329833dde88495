// Kernel parameters: the work items and tensor descriptions that the host passes to every kernel. The structs are made
// of attn-kernels/src/launch and attn-core/src/plan.
#pragma once
#include "abi/structs.cuh"

// The parameters of a mixed launch, behind those that all kernels have.
inline const MixedParams& mixed(const KernelParams& p) { return static_cast<const MixedParams&>(p); }
