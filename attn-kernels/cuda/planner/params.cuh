// Parameters and status of the planner kernel. attn-kernels/src/launch/plan_abi.rs mirrors them field by field.
#pragma once
#include "abi/kernel_params.cuh"

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
};

struct PlanStatus {
  int code;  // Fault
  int index;
  int value;
  int other;
  // These two are read together as one 8-byte word. Both are 0 between launches.
  unsigned copied;          // CTAs that have copied their part of the page table
  unsigned first_bad_page;  // ~index of the first entry that is not a page; 0: none
};

struct PlanParams {
  // The batch, in device memory of the caller.
  const int* qo_indptr;     // [requests + 1]
  const int* kv_lens;       // [requests]
  const int* page_indptr;   // [requests + 1]; null: padded rows, or ragged keys
  const int* page_indices;  // [page_indptr[requests]], or [requests][page_stride]
  // Sections of the workspace, laid out by attn-core/src/plan/blob.rs.
  int* to_qo_indptr;  // [capacity_requests + 1]
  int* to_kv_indptr;
  int* to_page_indptr;
  int* to_page_indices;
  int4* workers;  // [workers] WorkerStart
  int4* items;    // [capacity_items] WorkItem
  int4* merges;   // [capacity_merges] MergeItem
  PlanStatus* status;
  void* scratch;  // PlannerScratch; null: in shared memory
  int requests;
  int capacity_requests;
  int capacity_items;
  int capacity_merges;
  // Limits of the batch.
  int max_queries;  // of one request
  int max_qo_tokens;
  int max_kv_tokens;
  int max_page_entries;  // of the page table
  int num_pages;         // of the pool
  FastDiv page_size;
  // The plan rule: attn-core/src/plan/rule.rs.
  FastDiv group;
  FastDiv tile_rows;
  FastDiv kv_align;
  unsigned max_workers;
  unsigned min_split_blocks;  // KV blocks of the shortest split
  unsigned item_cost;         // in units of cost
  unsigned block_cost;
  unsigned merge_cost;
  int qo_heads;
  int kv_heads;
  long long page_stride;  // entries between padded rows of the page table; -1: compressed rows or ragged keys
};
