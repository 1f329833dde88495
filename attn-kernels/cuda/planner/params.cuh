// What the host hands to the kernel that plans. Mirrored field by field by attn-kernels/src/launch/plan_abi.rs.
#pragma once
#include "abi/kernel_params.cuh"

// What is wrong with a batch on the device. `index`, `value` and `other` say where and what.
enum class Fault : int {
  None,
  QoStart,      // value: qo_indptr[0], which is not 0
  QoOrder,      // index: entry of qo_indptr; value: it is less than `other`, that before it
  RequestRows,  // index: request; value: more queries than one may have
  QoTokens,     // index: request; value: more queries up to it than all may have
  KvLen,        // index: request; value: its keys, below 0
  KvTokens,     // index: request; value: more keys up to it than all may have
  PageStart,    // value: page_indptr[0], which is not 0
  PageOrder,    // index: entry of page_indptr; value: it is less than `other`, that before it
  PageRoom,     // index: request; value: more pages up to it than there are, or than there is room for
  FewPages,     // index: request; value: its pages, too few for `other` keys
  Page,         // index: entry of page_indices; value: no page of the pool; other: entries of a padded row, or -1
};

struct PlanStatus {
  int code;  // of the list that is there: Fault
  int index;
  int value;
  int other;
  // Read together, in a word of 8 bytes.
  unsigned copied;    // CTAs that have copied their pages; 0 between launches
  unsigned bad_page;  // ~index of the first page that is none; 0: all are, and between launches
};

struct PlanParams {
  // The batch, in memory of the caller.
  const int* qo_indptr;     // [requests + 1]
  const int* kv_lens;       // [requests]
  const int* page_indptr;   // [requests + 1]; null: padded rows, or ragged keys
  const int* page_indices;  // [page_indptr[requests]], or [requests][page_stride]
  // Sections of the workspace, as attn-core/src/plan/blob.rs lays them out.
  int* to_qo_indptr;  // [room_requests + 1]
  int* to_kv_indptr;
  int* to_page_indptr;
  int* to_page_indices;
  int4* workers;  // [workers] WorkerStart
  int4* items;    // [room_items] WorkItem
  int4* merges;   // [room_merges] MergeItem
  PlanStatus* status;
  void* scratch;  // PlanMemory; null: it is in shared memory
  int requests;
  int room_requests;
  int room_items;
  int room_merges;
  // The most that a batch may have.
  int most_queries;  // of one request
  int most_qo_tokens;
  int most_kv_tokens;
  int most_pages;  // entries of the page table
  int num_pages;   // of the pool
  FastDiv page_size;
  // How it is cut: attn-core/src/plan/rule.rs.
  FastDiv group;
  FastDiv tile_rows;
  FastDiv kv_align;
  unsigned workers_most;
  unsigned shortest;  // blocks of a span
  unsigned piece;     // costs
  unsigned block;
  unsigned spread;
  int qo_heads;
  int kv_heads;
  long long page_stride;  // of a table of padded rows: entries from one row to the next; -1: compressed rows, or ragged keys
};
