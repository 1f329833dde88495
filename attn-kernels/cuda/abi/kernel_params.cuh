// What the host hands to every kernel. Mirrored field by field by attn-kernels/src/launch/abi.rs.
#pragma once

// One unit of work for one KV head: a block of query rows of a request against a span of its keys.
struct WorkItem {
  int request;
  int first_row;  // packed
  int rows;       // 1 .. TILE_ROWS
  int kv_begin;   // the span, in keys of the request, or of the rows' list where the variant has lists
  int kv_end;
  int partial;    // slot for the partial state; -1: alone, writes the final output
  int merge;      // that takes it, of KernelParams::merges
  int qo_token;   // of the request: first packed query token,
  int qo_len;     //   queries,
  int kv_token;   //   first packed key token,
  int kv_len;     //   keys,
  int page;       //   first page, of KernelParams::page_indices
};

// One block of query rows whose partial states, slots first .. first + count in this order, become the final output.
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

// A 3-d strided tensor: (token or slot, head, dim), dim contiguous; pages when it is a pool. Strides count elements.
struct Strided {
  void* data;
  long long token;  // ragged: from token to token; paged: from slot to slot of a page
  long long head;
  long long page;   // paged only
};

// n / divisor and n % divisor for 0 <= n < 2^31 without a division: q = umulhi(n, magic) >> shift, magic 0 means divisor 1.
struct FastDiv {
  unsigned divisor;
  unsigned magic;
  unsigned shift;
};

// The items of a worker: first .. end.
struct WorkerStart {
  int first;
  int end;
  int pad[2];
  WorkItem item;  // the first
};

// A unit of work of a mixed launch: rows of a request, or of several neighbours that share keys, against a span of one segment of their keys.
struct MixedItem {
  int request;    // the first that has rows
  int requests;   // that have rows: 1, or neighbours
  int first_row;  // packed, counted from the first row of `request`
  int rows;       // 0: nothing to do
  int kv_begin;   // the span: positions
  int kv_end;
  int kv_first;   // position of the segment's first key
  int memory;     // where that is: token of a ragged tensor, or entry of the page table at which the segment begins
  int pass;       // token at which the pass writes it
  int full;       // whether every logit is proven to count
  int partial;    // row of the partial states that takes the first row's; -1: alone, writes the final output
  int qo_token;   // of `request`: first packed query token,
  int qo_len;     //   queries,
  int kv_token;   //   first packed key token,
  int kv_len;     //   keys
  int pad;
};

// A few query rows whose partial states become the final output.
struct MixedMerge {
  int request;
  int first_row;  // packed
  int rows;
  int first;      // of MixedParams::merge_parts: rows of partial states that hold the first row's, in the order of keys
  int count;
  int qo_token;
  int qo_len;
  int kv_len;
};

// The items of a decode worker: first .. end.
struct MixedStart {
  int first;
  int end;
  int pad[2];
  MixedItem item;  // the first
};

// Keys that one request has, or several neighbours share, in one run of memory or of the page table.
struct MixedSegment {
  int request;   // the first that has them
  int kv_begin;  // position of the first key
  int keys;
  int memory;    // as of an item
  int pass;
  int kv_token;  // of `request`: first packed key token,
  int kv_len;    //   keys
  int pad;
};

struct KernelParams {
  Strided q, k, v, o;         // k, v: the pool or the ragged tensor, before any pre-pass
  Strided k_pre;              // ragged: keys after key_transform (prefill with KEY_PRE_PASS only)
  Strided v_pre;              // ragged: values after value_transform (prefill with VALUE_PRE_PASS only)
  float* lse;                 // natural log, (qo token, qo head); null when not wanted
  long long lse_token;        // strides of lse
  long long lse_head;
  const float* k_scales;      // [kv_heads]: a stored key stands for itself times k_scale and, unless null, times its head's
  const float* v_scales;      // [kv_heads], of values alike
  const int* qo_indptr;       // [batch + 1]
  const int* kv_indptr;       // [batch + 1] in tokens, also for paged KV: sums of kv_len
  const int* page_indptr;     // [batch + 1], paged only
  const int* page_indices;    // [page_indptr[batch]], paged only
  const WorkItem* items;      // [gridDim.x of the main kernel]
  const MergeItem* merges;    // [gridDim.x of the merge kernel]
  const WorkerStart* workers; // [gridDim.x / kv_heads]: decode
  unsigned* arrivals;         // [merges][kv_heads], 0 between runs: partial states that are there (decode, but for mixed launches)
  float* partial_o;           // [slots][kv_heads][TILE_ROWS][VALUE_DIM]: unnormalised sums, relative to the row's maximum
  float2* partial_md;         // [slots][kv_heads][TILE_ROWS]: (row maximum, denominator)
  FastDiv group;              // query heads per KV head
  FastDiv page_size;
  FastDiv list_block;         // keys of a block of the variant's lists
  int batch;
  int kv_heads;
  int read_once;              // whether no other CTA of the launch reads the same keys: they need not stay in a cache
  float sm_scale;
  float k_scale;              // of all keys; 1: none
  float v_scale;
  int unfinished;             // whether rows are left without sink and output transform: states that merge with others
};

// Of a mixed launch, which has lists of its own. Partial states are counted in rows there: [rows][kv_heads][..].
struct MixedParams : KernelParams {
  const MixedStart* workers;      // [workers]: decode
  const MixedItem* decode;        // items of all workers
  const MixedItem* prefill;       // [prefill_items]
  const MixedMerge* merges;       // [gridDim.x of the merge kernel]
  const int* merge_parts;
  const int* request_of_query;    // [qo tokens]; where requests share keys
  const int* segment_ends;        // [segments + 1]: prefix sums of their keys, in the order of `pass`
  const MixedSegment* segments;
  int decode_ctas;                // workers * kv_heads
  int prefill_items;
  int segment_count;
  int wave;                       // CTAs that the device holds at a time
  int wave_decodes;               // of so many that start together, workers of decode, as long as there are any
  int pad;
};

// A tensor as copies of boxes take it (CUtensorMap): (element, token or slot, head, page); boxes of 64 elements of some rows.
struct alignas(64) TensorMap {
  unsigned long long words[16];
};

// What prefill by warpgroups is given besides.
struct WarpgroupParams {
  TensorMap k, v;    // what is multiplied: rewritten keys and values, where there are
  TensorMap q;       // (element, head, token), boxes of a KV head's query heads and as many tokens as make a tile of rows; if query_boxes
  TensorMap o;       // the same, boxes of 16 rows; if output_boxes
  int box_rows;      // keys of a box, of those in pages; 0: pages are no boxes, rows are copied one by one. Others have boxes of TILE_KEYS
  int items;         // of KernelParams::items
  int heads;         // KV heads that are worked on at a time: as many as leave keys and values in the second-level cache
  int query_boxes;   // whether a tile of packed rows of queries is a box
  int output_boxes;  // whether 16 packed rows of outputs are a box
};

// What the launch of a mixed kernel was given.
inline const MixedParams& mixed(const KernelParams& p) { return static_cast<const MixedParams&>(p); }
