// Parameters and status of the planner kernel. The structs are made of attn-kernels/src/launch/plan_abi.rs.
#pragma once
#include "abi/kernel_params.cuh"
#include "planner/structs.cuh"

// The fault of a batch. `index`, `value` and `other` are fields of PlanStatus.
enum class Fault : int {
  None,
  QoStart,       // value: qo_indptr[0], which is not 0
  QoOrder,       // index: entry of qo_indptr; value: that entry, less than the previous one, `other`
  RequestRows,   // index: request; value: its queries, more than the capacity of one request
  QoTokens,      // index: request; value: queries up to it, more than the capacity
  KvLen,         // index: request; value: its keys, below 0
  KvTokens,      // index: request; value: keys up to it, more than the capacity
  PageStart,     // value: page_indptr[0], which is not 0
  PageOrder,     // index: entry of page_indptr; value: that entry, less than the previous one, `other`
  PageCapacity,  // index: request; value: pages up to it, more than the page table or the capacity has
  FewPages,      // index: request; value: its pages, too few for `other` keys
  Page,          // index: entry of page_indices; value: not a page of the pool; other: length of a padded row, or -1
  // of batches with levels
  LevelEnd,          // value: the end of a level's qo_indptr, which is not that of the batch, `other`
  GroupCutsRequest,  // index: entry of a level's qo_indptr; value: that entry, which is within the request `other`
  NotNested,         // index: group; other: request, which is in another group of the level before than the one before
  MemoryTokens,      // value: tokens of ragged keys, more than the capacity, `other`
};
