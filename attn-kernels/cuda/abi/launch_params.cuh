// What every kernel of a launch is given.
#pragma once
#include "abi/kernel_params.cuh"
#include "arch/element.cuh"

using LaunchParams = typename Choose<MIXED, MixedParams, KernelParams>::type;
