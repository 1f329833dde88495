// What every kernel of a launch is given.
#pragma once
#include "abi.cuh"
#include "elem.cuh"

using LaunchParams = typename Choose<MIXED, MixedParams, KernelParams>::type;
