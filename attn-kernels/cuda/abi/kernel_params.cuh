// Kernel parameters: the work items and tensor descriptions that the host passes to every kernel.
// attn-kernels/src/launch/abi.rs mirrors the structs field by field.
#pragma once

// A work item of one KV head: rows of a request, or of several adjacent ones that share keys, and a range of their keys
// (a KV split).
struct WorkItem {
  int request;    // the first request that has rows
  int requests;   // requests that have rows: 1, or several adjacent ones
  int first_row;  // packed, counted from the first row of `request`
  int rows;       // 1 .. TILE_ROWS; 0: nothing to do
  int kv_begin;   // the KV range, as positions, or in keys of the rows' KV list where the variant has lists
  int kv_end;
  int kv_first;  // position of the segment's first key
  int memory;    // location of that key: token of a ragged tensor, or entry of the page table
  int pass;      // token of that key in the preprocessed K and V
  int full;      // whether no element is masked (proven); only with SHARED_ROWS
  int partial;   // row of the partials that takes the first row's; -1: the only split, which writes the output
  int merge;     // the merge that reads the partials, of KernelParams::merges; -1 in a mixed launch
  int qo_token;  // of `request`: first packed query token,
  int qo_len;    //   queries,
  int kv_token;  //   first packed key token,
  int kv_len;    //   keys
};

// A merge: rows of one request whose partials become output rows. The partials of its first row are at rows `first`,
// `first` + TILE_ROWS, ...; in a mixed launch at MixedParams::merge_parts[first], [first + 1], ..
struct MergeItem {
  int request;
  int first_row;  // packed
  int rows;
  int first;
  int count;
  int qo_token;
  int qo_len;
  int kv_len;
};

// A 3-d strided tensor (token or slot, head, dim), dim contiguous; with pages where it is a paged cache. Strides in
// elements.
struct Strided {
  void* data;
  long long token;  // ragged: from token to token; paged: from slot to slot of a page
  long long head;
  long long page;  // paged only
};

// n / divisor and n % divisor for 0 <= n < 2^31 without a division: q = umulhi(n, magic) >> shift; magic 0 stands for
// divisor 1.
struct FastDiv {
  unsigned divisor;
  unsigned magic;
  unsigned shift;
};

// The items of a decode worker: first .. end.
struct WorkerStart {
  int first;
  int end;
  int pad[2];
  WorkItem item;  // the first one
};

// A segment: keys of one request, or shared by several adjacent ones, that are contiguous in memory or in the page
// table.
struct KvSegment {
  int request;   // the first request that has them
  int kv_begin;  // position of the first key
  int keys;
  int memory;  // as in WorkItem
  int pass;
  int kv_token;  // of `request`: first packed key token,
  int kv_len;    //   keys
  int pad;
};

struct KernelParams {
  Strided q, k, v, o;   // k, v: the paged cache or the ragged tensor, before preprocessing
  Strided k_pre;        // ragged: K after key_transform (prefill with K_PREPROCESSED only)
  Strided v_pre;        // ragged: V after value_transform (prefill with V_PREPROCESSED only)
  float* lse;           // natural log, (qo token, qo head); null when not wanted
  long long lse_token;  // strides of lse
  long long lse_head;
  const float* k_scales;       // [kv_heads]: scale per KV head of stored K, beside k_scale; may be null
  const float* v_scales;       // [kv_heads], of stored V; may be null
  const int* qo_indptr;        // [batch + 1]
  const int* kv_indptr;        // [batch + 1] in tokens, also for paged KV: sums of kv_len
  const int* page_indptr;      // [batch + 1], paged only
  const int* page_indices;     // [page_indptr[batch]], paged only
  const WorkItem* items;       // [gridDim.x of the main kernel]; in a mixed launch those of all decode workers
  const MergeItem* merges;     // [gridDim.x of the merge kernel]
  const WorkerStart* workers;  // decode: [workers]
  unsigned*
      split_semaphores;  // [merges][kv_heads]: split-KV semaphores, 0 between launches (decode, except mixed launches);
                         // sm_90 prefill: the two counters of the tile scheduler
  float* partial_o;      // [partial rows][kv_heads][HEAD_DIM_VO]: unnormalised O, relative to row_max
  float2* partial_md;    // [partial rows][kv_heads]: (row_max, row_sum)
  FastDiv group;         // query heads per KV head
  FastDiv page_size;
  FastDiv list_block;  // keys of a block of the variant's KV lists
  int batch;
  int kv_heads;
  int read_once;  // whether no other CTA of the launch reads the same K and V, so that L2 may evict them first
  float sm_scale;
  float k_scale;  // of all of stored K; 1: none
  float v_scale;
  int partial_output;  // whether output rows omit sink and output transform: partials that merge with others
};

// Parameters of a mixed launch.
struct MixedParams : KernelParams {
  const WorkItem* prefill;  // [prefill_items]
  const int* merge_parts;   // rows of partials, in the order of keys
  const int* request_of_query;  // [qo tokens], where requests share keys
  const int* segment_ends;      // [segments + 1]: prefix sums of the segments' keys, in the order of `pass`
  const KvSegment* segments;
  int decode_ctas;  // workers * kv_heads
  int prefill_items;
  int segment_count;
  int wave;          // CTAs that the device holds at a time
  int wave_decodes;  // decode workers of each wave, while there are any
  int pad;
};

// A tensor map for TMA (CUtensorMap): (element, token or slot, head, page), with boxes of 64 elements of some rows.
struct alignas(64) TensorMap {
  unsigned long long words[16];
};

// Further parameters of sm_90 prefill.
struct Sm90Params {
  TensorMap k, v;  // preprocessed K and V where there are, else the cache or the ragged tensors
  TensorMap q;     // (element, head, token); a box is a Q tile: a KV head's query heads of some tokens; if use_tma_q
  TensorMap o;     // as q, with boxes of 16 rows; if use_tma_o
  int box_rows;   // keys of a box of a page; 0: pages do not fit boxes, and rows are loaded by cp.async. Ragged K and V
                  // have boxes of TILE_KEYS
  int items;      // of KernelParams::items
  int heads;      // KV heads that are processed at a time: as many as fit their K and V into L2
  int use_tma_q;  // whether a Q tile (PackGQA) is a box
  int use_tma_o;  // whether 16 rows of O (PackGQA) are a box
};

// The parameters of a mixed launch, behind those that all kernels have.
inline const MixedParams& mixed(const KernelParams& p) { return static_cast<const MixedParams&>(p); }
