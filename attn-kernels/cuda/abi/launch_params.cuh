// LaunchParams: the type of the first kernel argument, with the lists of a mixed launch where the kernel has them.
#pragma once
#include "abi/kernel_params.cuh"
#include "arch/element.cuh"

using LaunchParams = Choose<MIXED, MixedParams, KernelParams>;
