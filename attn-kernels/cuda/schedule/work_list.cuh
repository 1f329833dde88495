// The work list that decode workers iterate over: that of a decode launch, or the decode part of a mixed launch.
#pragma once
#include "abi/kernel_params.cuh"

template <bool MIXED>
struct WorkLists {
  using Item = WorkItem;
  using Start = WorkerStart;
  static const Start* workers(const KernelParams& p) { return p.workers; }
  static const Item* items(const KernelParams& p) { return p.items; }
};
template <>
struct WorkLists<true> {
  using Item = MixedItem;
  using Start = MixedStart;
  static const Start* workers(const KernelParams& p) { return mixed(p).workers; }
  static const Item* items(const KernelParams& p) { return mixed(p).decode; }
};
using Work = WorkLists<MIXED>;
