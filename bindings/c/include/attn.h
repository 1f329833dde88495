/* attn-rs for C. Made by cbindgen from bindings/c/src; https://github.com/attn-rs/attn-rs has the guide. */

#ifndef ATTN_H
#define ATTN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

// The version of this interface. It grows with each addition; what a version has stays in later ones.
#define ATTN_ABI_VERSION 6

// The bytes of the id of a group.
#define ATTN_GROUP_ID_BYTES 128

// The greatest rank of a tensor.
#define ATTN_MAX_RANK 5

// How a call ended. [`attn_last_error`] has the text.
typedef enum AttnStatus {
  // It did what was asked.
  ATTN_STATUS_OK = 0,
  // A null pointer, a struct of unknown size, a number that is no member of its enum, text that is not UTF-8.
  ATTN_STATUS_INVALID_ARGUMENT = 1,
  // An expression that is none, a variant that does not exist, a parameter that does not fit.
  ATTN_STATUS_INVALID_VARIANT = 2,
  // A batch that contradicts itself, or exceeds the capacity of a plan.
  ATTN_STATUS_INVALID_BATCH = 3,
  // A tensor of another shape, type, memory or alignment than the batch needs.
  ATTN_STATUS_INVALID_TENSOR = 4,
  // Heads, element types or options that no kernel supports.
  ATTN_STATUS_UNSUPPORTED = 5,
  // No driver, no such device, or a build without the CUDA backend.
  ATTN_STATUS_NO_DEVICE = 6,
  // The driver, the compiler or a kernel failed.
  ATTN_STATUS_CUDA = 7,
  // A bug of the library.
  ATTN_STATUS_INTERNAL = 8,
} AttnStatus;

// Where the keys of requests are.
typedef enum AttnBatchKind {
  // One after the other: `kv_indptr`.
  ATTN_BATCH_KIND_RAGGED = 0,
  // In pages that are listed one request after the other (CSR): `page_indptr`, `page_indices`, `last_page_len`.
  ATTN_BATCH_KIND_PAGED = 1,
  // In pages, with as many entries for each request: `page_indices` of (requests, `pages_per_request`), `kv_lens`.
  ATTN_BATCH_KIND_BLOCK_TABLE = 2,
  // In levels, each of which groups of neighbouring requests share (a cascade): `levels`.
  ATTN_BATCH_KIND_LEVELS = 3,
} AttnBatchKind;

// The type of the elements of a tensor.
typedef enum AttnDtype {
  // IEEE half precision.
  ATTN_DTYPE_F16 = 0,
  // bfloat16.
  ATTN_DTYPE_BF16 = 1,
  // IEEE single precision.
  ATTN_DTYPE_F32 = 2,
  // 8 bits: 4 of exponent, 3 of mantissa (OCP `e4m3fn`); of keys and values alone.
  ATTN_DTYPE_E4M3 = 3,
  // 8 bits: 5 of exponent, 2 of mantissa (OCP `e5m2`); of keys and values alone.
  ATTN_DTYPE_E5M2 = 4,
  // Bytes: keys and values in a KV format (`AttnSpec.kv_format`), and their side data.
  ATTN_DTYPE_U8 = 5,
} AttnDtype;

// The type of the elements of a parameter tensor.
typedef enum AttnElement {
  // IEEE half precision.
  ATTN_ELEMENT_F16 = 0,
  // bfloat16.
  ATTN_ELEMENT_BF16 = 1,
  // IEEE single precision.
  ATTN_ELEMENT_F32 = 2,
  // 8 bits: 4 of exponent, 3 of mantissa (OCP `e4m3fn`).
  ATTN_ELEMENT_E4M3 = 3,
  // 8 bits: 5 of exponent, 2 of mantissa (OCP `e5m2`).
  ATTN_ELEMENT_E5M2 = 4,
  // `int32_t`.
  ATTN_ELEMENT_I32 = 5,
  // `uint32_t`.
  ATTN_ELEMENT_U32 = 6,
  // `uint8_t`.
  ATTN_ELEMENT_U8 = 7,
} AttnElement;

// Which kernel runs.
typedef enum AttnKernel {
  // For each batch the one with the shortest predicted time.
  ATTN_KERNEL_AUTO = 0,
  // The decode kernel.
  ATTN_KERNEL_DECODE = 1,
  // The prefill kernel.
  ATTN_KERNEL_PREFILL = 2,
  // Both in one launch.
  ATTN_KERNEL_MIXED = 3,
} AttnKernel;

// How keys and values lie in memory.
typedef enum AttnKvLayout {
  // (tokens, KV heads, head dim) each, or pools of pages in the order (pages, slots, KV heads, head dim).
  ATTN_KV_LAYOUT_NHD = 0,
  // Pools of pages in the order (pages, KV heads, slots, head dim).
  ATTN_KV_LAYOUT_HND = 1,
  // One pool in `k`, with keys and then values of each page: (pages, 2, slots, KV heads, head dim).
  ATTN_KV_LAYOUT_FUSED_NHD = 2,
  // As above, in the order (pages, 2, KV heads, slots, head dim).
  ATTN_KV_LAYOUT_FUSED_HND = 3,
  // One tensor or pool in `k`, whose first elements are the values: the cache of multi-head latent attention.
  ATTN_KV_LAYOUT_LATENT = 4,
} AttnKvLayout;

// The compute type of prefill: the element type of its MMA operands.
typedef enum AttnComputeType {
  // The elements of the tensors.
  ATTN_COMPUTE_TYPE_EXACT = 0,
  // Queries and probabilities rounded to e4m3, over keys and values of e4m3.
  ATTN_COMPUTE_TYPE_E4M3 = 1,
} AttnComputeType;

// How top-k and top-p combine.
typedef enum AttnFilterOrder {
  // Top-p keeps a share of what top-k has kept.
  ATTN_FILTER_ORDER_TOP_K_FIRST = 0,
  // Both look at the whole distribution.
  ATTN_FILTER_ORDER_JOINT = 1,
} AttnFilterOrder;

// Of which distribution log-probabilities are.
typedef enum AttnLogProbs {
  // After penalties, token mask and temperature, before the filters.
  ATTN_LOG_PROBS_SCALED = 0,
  // After the filters: what the token was drawn from.
  ATTN_LOG_PROBS_KEPT = 1,
} AttnLogProbs;

// A variant bound to heads, element types and an engine. It makes plans.
typedef struct AttnAttention AttnAttention;

// A rank of a group of engines, each with a process or a thread of its own. All ranks make the same calls in the same
// order. CUDA devices exchange over NCCL, which is loaded when it is first needed.
typedef struct AttnCommunicator AttnCommunicator;

// Decode whose keys are on several ranks: memory for the states of all.
typedef struct AttnDecodeContextParallel AttnDecodeContextParallel;

// A device that attention runs on: a CUDA device, or the CPU.
typedef struct AttnEngine AttnEngine;

// A planned batch, with the memory of its work list and partial states. It can run any number of times.
typedef struct AttnPlan AttnPlan;

// The order of runs on a device. On the CPU a run returns when it is done, and a stream does nothing.
typedef struct AttnStream AttnStream;

// Elements in memory of the engine's device: of the host where it is the CPU. One pool for all layers is a base
// address a layer with the stride of a page.
typedef struct AttnTensor {
  // The first element. It is not written to where the tensor is an input.
  void *data;
  // An `AttnDtype`.
  uint32_t dtype;
  // The number of dimensions.
  uint32_t rank;
  // The lengths of the dimensions.
  int64_t shape[ATTN_MAX_RANK];
  // Distances in elements between neighbours of each dimension; all zero for a tensor without gaps.
  int64_t strides[ATTN_MAX_RANK];
} AttnTensor;

// New keys and values, and where they go. Zero it, then set `size` and what differs from zero.
typedef struct AttnAppend {
  // `sizeof(AttnAppend)`.
  size_t size;
  // New keys: (tokens, KV heads, head dim).
  struct AttnTensor k;
  // New values: (tokens, KV heads, value dim); zero where values are in keys.
  struct AttnTensor v;
  // The pool of keys, as `kv_layout` says.
  struct AttnTensor k_pool;
  // The pool of values; zero for a fused pool, and where values are in keys.
  struct AttnTensor v_pool;
  // `tokens` entries in memory of the device: slots `page * page_size + slot`. Nothing is written for one below 0.
  const int64_t *slots;
  // `tokens` entries in memory of the device: positions of the tokens in their requests, for a variant that rotates
  // keys by them; null if none does.
  const int32_t *positions;
  // Entries of both.
  size_t tokens;
  // What readers multiply stored keys by; 0 for 1.
  float k_scale;
  // What readers multiply stored values by; 0 for 1.
  float v_scale;
  // An `AttnKvLayout`.
  uint32_t kv_layout;
  // 0.
  uint32_t reserved;
  // The pool of the side data of keys, as that of a run (`AttnRun.k_side`).
  struct AttnTensor k_side;
  // The pool of the side data of values.
  struct AttnTensor v_side;
} AttnAppend;

// What an attention is made of. Zero it, then set `size` and what differs from zero.
typedef struct AttnSpec {
  // `sizeof(AttnSpec)`.
  size_t size;
  // The variant: an expression over the registered ones, such as `causal + soft_cap(cap=30)`.
  const char *variant;
  // Query heads, a multiple of `kv_heads`.
  uint32_t qo_heads;
  // Heads of keys and values.
  uint32_t kv_heads;
  // Elements of a query or key of one head.
  uint32_t head_dim;
  // Elements of a value of one head; 0 for as many as those of a key.
  uint32_t value_dim;
  // An `AttnDtype`: that of queries and outputs.
  uint32_t qo_dtype;
  // An `AttnDtype`: that of keys and values.
  uint32_t kv_dtype;
  // The scale of logits; 0 for 1 / sqrt(head_dim).
  float sm_scale;
  // An `AttnKernel`.
  uint32_t kernel;
  // Batch invariance: keys are split at multiples of this number and nowhere else; 0 for the fastest split.
  uint32_t fixed_split_size;
  // Not 0 where keys and values are stored after the variant's key and value transforms.
  uint32_t stores_transformed;
  // Not 0 where values are the first elements of keys, as in multi-head latent attention.
  uint32_t values_in_keys;
  // An `AttnComputeType`.
  uint32_t compute_type;
  // The KV format in which keys and values are stored, such as `int8` or `int8 / int4(group=32)`; null for numbers.
  // `kv_dtype` is that of bytes then.
  const char *kv_format;
} AttnSpec;

// Elements for a parameter tensor, in row-major order. Zero it, then set `size` and what differs from zero.
typedef struct AttnContent {
  // `sizeof(AttnContent)`.
  size_t size;
  // The elements, in memory of the device.
  const void *data;
  // Their number.
  size_t count;
  // For `attn_set_tensor_rows` the index of each row, in memory of the device: counted in rows from the start of the
  // tensor; below 0 for a row that is not written. Null for `attn_set_tensor`.
  const int32_t *indices;
  // Rows.
  size_t rows;
  // An `AttnElement`.
  uint32_t element;
  // 0.
  uint32_t reserved;
} AttnContent;

// The state of rows over some of their keys: what a run writes that is `partial`.
typedef struct AttnState {
  // The output, divided by its own sum of weights: (tokens, heads, value dim) in f16, bf16 or f32.
  struct AttnTensor o;
  // The log-sum-exp of its logits: (tokens, heads) in f32, natural logarithm; `-inf` for a row without keys.
  struct AttnTensor lse;
} AttnState;

// What a run reads and writes. Zero it, then set `size` and what differs from zero.
typedef struct AttnRun {
  // `sizeof(AttnRun)`.
  size_t size;
  // Queries: (query tokens, query heads, head dim).
  struct AttnTensor q;
  // Keys: (keys, KV heads, head dim) where the batch is ragged, else a pool as `kv_layout` says.
  struct AttnTensor k;
  // Values, as the keys; zero for a fused pool, and where values are in keys.
  struct AttnTensor v;
  // The output: (query tokens, query heads, value dim).
  struct AttnTensor o;
  // If its data is not null: the log-sum-exp of each row of logits, f32 of (query tokens, query heads).
  struct AttnTensor lse;
  // The attention of another layer (`attn_attention_with_parameters`); null for that of the plan.
  const struct AttnAttention *layer;
  // An `AttnKvLayout`.
  uint32_t kv_layout;
  // Not 0 for the state of each row over these keys, to be merged with that over others: no sink, no output
  // transform. It needs `lse`.
  uint32_t partial;
  // What stored keys are multiplied by; 0 for 1.
  float k_scale;
  // What stored values are multiplied by; 0 for 1.
  float v_scale;
  // Side data of keys in a KV format that has any, in the order of dimensions of `k`; zero otherwise. In a fused
  // layout it is one pool for keys and values.
  struct AttnTensor k_side;
  // Side data of values, as that of keys; zero where values are in keys.
  struct AttnTensor v_side;
} AttnRun;

// A batch of requests. All arrays are in host memory, and are read during the call.
typedef struct AttnBatch {
  // `sizeof(AttnBatch)`.
  size_t size;
  // The number of requests.
  size_t requests;
  // `requests + 1` entries: the first query token of each request, and their number.
  const int32_t *qo_indptr;
  // An `AttnBatchKind`.
  uint32_t kind;
  // Tokens of a page.
  uint32_t page_size;
  // Pages of the pool.
  uint32_t num_pages;
  // Entries of a row of `page_indices` of a block table.
  uint32_t pages_per_request;
  // Ragged: `requests + 1` entries, the first key of each request, and their number.
  const int32_t *kv_indptr;
  // Paged: `requests + 1` entries, the first entry of each request in `page_indices`, and their number.
  const int32_t *page_indptr;
  // The pages of the requests.
  const int32_t *page_indices;
  // Paged: `requests` entries, the tokens of the last page of each request.
  const int32_t *last_page_len;
  // Block table: `requests` entries, the keys of each request.
  const int32_t *kv_lens;
  // Levels: from the one that most requests share to that of each request. A level is a batch, ragged or paged,
  // whose requests are groups of neighbours: the entries of its `qo_indptr` occur in that of this batch. Ragged keys
  // may begin at any token. A request has the keys of its group in each level, one level after the other.
  const struct AttnBatch *levels;
  // The number of levels.
  size_t level_count;
} AttnBatch;

// The largest batch of a plan that is updated in place.
typedef struct AttnCapacity {
  // `sizeof(AttnCapacity)`.
  size_t size;
  // Requests.
  uint32_t requests;
  // Query tokens of all requests.
  uint32_t qo_tokens;
  // Keys of all requests. One that several requests share counts for each.
  uint32_t kv_tokens;
  // Tokens of a page; 0 where keys are ragged.
  uint32_t page_size;
  // Pages of the pool.
  uint32_t num_pages;
  // Levels of a batch in levels; with 0 and 1 an update to such a batch is refused.
  uint32_t levels;
  // Query tokens of one request; 0 for as many as those of all. 1 is decode.
  uint32_t qo_len;
  // Tokens of ragged keys and values, where requests share some; 0 for `kv_tokens`.
  uint32_t kv_memory_tokens;
} AttnCapacity;

// A batch in memory of the device (of the host where the engine is the CPU), which knows the lengths: the host need
// not. Pages have the size and the pool of the plan's capacity. Zero it, then set `size` and what differs from zero.
typedef struct AttnDeviceBatch {
  // `sizeof(AttnDeviceBatch)`.
  size_t size;
  // The number of requests. One without queries does nothing, so that a batch may be padded with such requests.
  size_t requests;
  // `requests + 1` entries: the first query token of each request, and their number.
  const int32_t *qo_indptr;
  // `requests` entries: the keys of each request.
  const int32_t *kv_lens;
  // An `AttnBatchKind`: ragged, paged or a block table.
  uint32_t kind;
  // Entries of a row of `page_indices` of a block table.
  uint32_t pages_per_request;
  // Paged: `requests + 1` entries, the first entry of each request in `page_indices`, and their number. A request
  // may have more pages than its keys need.
  const int32_t *page_indptr;
  // The pages of the requests.
  const int32_t *page_indices;
  // Paged: entries of `page_indices`, at least as many as `page_indptr` ever counts.
  size_t page_entries;
  // The keys that requests share, from the level that most requests share; null without levels. A level is such a
  // batch, whose requests are groups of neighbours: the entries of its `qo_indptr` occur in that of this batch. A
  // request has the keys of its group in each level, and then its own. Ragged keys lie level by level.
  const struct AttnDeviceBatch *levels;
  // The number of levels, without that of the requests' own keys; `AttnCapacity.levels` counts it.
  size_t level_count;
  // If it is not 0, the most queries that `qo_indptr` counts: without a capture, tensors of runs need no more rows.
  // Otherwise they have those of the plan's capacity.
  uint32_t qo_tokens;
} AttnDeviceBatch;

// A parameter of rows: a value for all, or an array with one for each.
typedef struct AttnPerRowF32 {
  // A value a row, in memory of the device; null where all rows have `value`. A captured call reads it again at each
  // replay.
  const float *array;
  // The value of all rows; 0 beside an array.
  float value;
} AttnPerRowF32;

// A parameter of rows: a value for all, or an array with one for each.
typedef struct AttnPerRowI32 {
  // A value a row, in memory of the device; null where all rows have `value`. A captured call reads it again at each
  // replay.
  const int32_t *array;
  // The value of all rows; 0 beside an array.
  int32_t value;
} AttnPerRowI32;

// A parameter of rows: a value for all, or an array with one for each.
typedef struct AttnPerRowU64 {
  // A value a row, in memory of the device; null where all rows have `value`. A captured call reads it again at each
  // replay.
  const uint64_t *array;
  // The value of all rows; 0 beside an array.
  uint64_t value;
} AttnPerRowU64;

// What tokens are drawn from. Zero it, then set `size` and what differs from zero.
//
// Arrays are in memory of the device and have an entry for each row of the results.
typedef struct AttnSampling {
  // `sizeof(AttnSampling)`.
  size_t size;
  // `rows` entries: the row of logits that each row of the results is drawn from; null: its own.
  const int32_t *indices;
  // Entries of `indices`; 0 where it is null.
  size_t rows;
  // For each row `ceil(vocab / 32)` words, of which bit `i % 32` of word `i / 32` is 1 if token i is allowed; null:
  // all are.
  const uint32_t *token_mask;
  // Logits are divided by it: 1 leaves them. Below 0, and 0 in an array: the likeliest token. A value of 0 is
  // refused for logits; for probabilities it is 0 or 1.
  struct AttnPerRowF32 temperature;
  // Keeps the k likeliest tokens; 0: off.
  struct AttnPerRowI32 top_k;
  // Keeps the fewest likeliest tokens whose probabilities sum to at least p, and one at least. 1, and a value of 0:
  // off.
  struct AttnPerRowF32 top_p;
  // Keeps tokens that are at least so many times as likely as the likeliest; 0: off.
  struct AttnPerRowF32 min_p;
  // The seed of random numbers: rows with the same seed and position draw with the same number.
  struct AttnPerRowU64 seeds;
  // Logits of tokens that occurred are divided by it above 0, and multiplied below. 1, and a value of 0: off. This
  // and the other penalties need `AttnSampleOut.counts`.
  struct AttnPerRowF32 repetition;
  // What is subtracted from logits of tokens that were drawn.
  struct AttnPerRowF32 presence;
  // What is subtracted for each time that a token was drawn.
  struct AttnPerRowF32 frequency;
  // An `AttnFilterOrder`.
  uint32_t order;
  // An `AttnLogProbs`.
  uint32_t log_probs;
} AttnSampling;

// What sampling writes, in memory of the device. Zero it, then set `size` and what differs from zero.
typedef struct AttnSampleOut {
  // `sizeof(AttnSampleOut)`.
  size_t size;
  // (rows): the tokens; -1 for a row without an allowed one.
  int32_t *ids;
  // (rows): the positions whose random numbers are drawn with. Each is advanced by 1, on the device too.
  int64_t *positions;
  // (rows, vocab): how often each token was drawn, plus 2^31 if it is in the prompt; the token is counted. Or null.
  uint32_t *counts;
  // (rows): the natural log-probability of the token; or null.
  float *log_probs;
  // (rows, vocab) in f32, if its data is not null: the probabilities that the token was drawn from.
  struct AttnTensor probs;
  // (rows, `top_count`): the likeliest tokens in falling order, -1 where there are fewer; or null.
  int32_t *top_ids;
  // (rows, `top_count`): their natural log-probabilities, before the filters.
  float *top_log_probs;
  // The likeliest tokens of a row that are written: 1 to 64; 0 where both are null.
  size_t top_count;
} AttnSampleOut;

// Drafts of requests, one after another. Zero it, then set `size` and what differs from zero.
typedef struct AttnChainDrafts {
  // `sizeof(AttnChainDrafts)`.
  size_t size;
  // (requests, drafts, vocab) in f32: the probabilities that each draft was drawn from.
  struct AttnTensor draft_probs;
  // (requests, drafts + 1, vocab) in f32: the probabilities of the model, after its filters.
  struct AttnTensor target_probs;
  // (requests, drafts), in memory of the device: the drafts. A request with fewer has -1 behind them.
  const int32_t *draft_ids;
  // Seeds of the requests.
  struct AttnPerRowU64 seeds;
} AttnChainDrafts;

// What the verification of chains writes, in memory of the device.
typedef struct AttnChainOut {
  // `sizeof(AttnChainOut)`.
  size_t size;
  // (requests, drafts + 1): the emitted drafts and one more token; -1 behind it.
  int32_t *ids;
  // (requests): how many drafts pass their tests, each for itself.
  int32_t *accepted;
  // (requests): how many drafts were emitted, those before the first that fails.
  int32_t *emitted;
  // (requests): the position of the first draft. It is advanced by the emitted drafts and 1.
  int64_t *positions;
} AttnChainOut;

// Trees of drafts. Node 0 of a request is its last token, which is no draft. Arrays are in memory of the device and
// have (requests, nodes) entries. Zero it, then set `size` and what differs from zero.
typedef struct AttnTreeDrafts {
  // `sizeof(AttnTreeDrafts)`.
  size_t size;
  // (requests, nodes, vocab) in f32: the probabilities of the model behind each node. A tree has 1 to 2048 nodes.
  struct AttnTensor target_probs;
  // The token of each node.
  const int32_t *draft_ids;
  // Where a node's result goes in `AttnTreeOut.ids`, each elsewhere.
  const int32_t *retrieve_index;
  // The first child of a node; -1: none.
  const int32_t *retrieve_next_token;
  // The next child of the same parent; -1: none.
  const int32_t *retrieve_next_sibling;
  // Seeds of the requests.
  struct AttnPerRowU64 seeds;
  // A draft whose probability reaches it is accepted without a test; 0 for 1, which is none.
  float threshold_single;
  // Divides the probability of drafts: below 1 more are accepted; 0 for 1, which is exact.
  float threshold_acc;
} AttnTreeDrafts;

// What the verification of trees writes, in memory of the device.
typedef struct AttnTreeOut {
  // `sizeof(AttnTreeOut)`.
  size_t size;
  // (requests * nodes): by `retrieve_index` the token behind each accepted node; others are unchanged.
  int32_t *ids;
  // (requests, nodes): the `retrieve_index` of the accepted nodes, node 0 first; -1 behind them.
  int32_t *accept_index;
  // (requests): how many drafts were accepted.
  int32_t *accepted;
  // (requests): the position of the token behind node 0. It is advanced by the accepted drafts and 1.
  int64_t *positions;
} AttnTreeOut;

#ifdef __cplusplus
extern "C" {
#endif // __cplusplus

// The version of the interface of the library that was loaded, to compare with `ATTN_ABI_VERSION` of the header.
uint32_t attn_abi_version(void);

// Appends new keys and values to pools of pages, in the order of the stream. `attention` may be null; if its spec says
// `stores_transformed`, its variant's key and value transforms are applied, and rows are encoded in its `kv_format`. A
// transform that reads a table by the token of a key reads the entry of its row among the new ones. Pools share no
// memory with each other or with what is appended; they may be parts of one pool, such as its halves. On a CUDA device
// it launches and returns, as a run does.
enum AttnStatus attn_append(const struct AttnStream *stream,
                            const struct AttnAttention *attention,
                            const struct AttnAppend *append);

// Binds a variant to heads and element types.
enum AttnStatus attn_attention_new(const struct AttnEngine *engine,
                                   const struct AttnSpec *spec,
                                   struct AttnAttention **out);

// The same attention with other parameters of its variant: that of another layer, which runs plans of this one
// (`AttnRun.layer`) if it sees the same keys. `sm_scale` 0 is that of this attention.
enum AttnStatus attn_attention_with_parameters(const struct AttnAttention *attention,
                                               const char *variant,
                                               float sm_scale,
                                               struct AttnAttention **out);

// Frees an attention. Plans of it stay.
void attn_attention_free(struct AttnAttention *attention);

// Replaces the content of a parameter tensor in place, in the order of the stream, while plans of the attention live
// on; later appends for the attention (`attn_append`) transform by it too. `name` is that of a field (`logits`), or
// with its part before it (`sink.logits`). On a CUDA device it launches and returns, and the content stays until then.
enum AttnStatus attn_set_tensor(const struct AttnStream *stream,
                                const struct AttnAttention *attention,
                                const char *name,
                                const struct AttnContent *content);

// Writes rows of a parameter tensor, as `attn_set_tensor`: the new tokens of a table that grows with the sequences.
enum AttnStatus attn_set_tensor_rows(const struct AttnStream *stream,
                                     const struct AttnAttention *attention,
                                     const char *name,
                                     const struct AttnContent *content);

// CUDA device 0 if there is one, else the CPU.
enum AttnStatus attn_engine_auto(struct AttnEngine **out);

// The CPU, with all its threads.
enum AttnStatus attn_engine_cpu(struct AttnEngine **out);

// A CUDA device, through its primary context.
enum AttnStatus attn_engine_cuda(uint32_t ordinal, struct AttnEngine **out);

// Whether the engine is the CPU, so that tensors are in host memory.
bool attn_engine_is_cpu(const struct AttnEngine *engine);

// Loads costs of the engine's GPU from a file that `attn calibrate --out FILE` wrote. What is made of the engine
// afterwards chooses kernels and plans by them, in place of the file that `ATTN_COSTS` names. The CPU has no use for
// them. Nothing else may use the engine during the call; one that fails leaves it as it was.
enum AttnStatus attn_engine_load_costs(struct AttnEngine *engine, const char *path);

// Lets go of what CUDA graphs of yours captured on the device: of plans (`attn_plan_release_captured`), attentions,
// appends and merges, whether their handles are freed or not. None of these graphs may be replayed any more.
enum AttnStatus attn_engine_release_captured(const struct AttnEngine *engine);

// Frees an engine. What was made of it stays.
void attn_engine_free(struct AttnEngine *engine);

// Merges two states over disjoint keys into `out`, which shares no memory with them and may have no log-sum-exp. A
// state without keys changes nothing, whatever its output holds. At most one of the two has a sink. On a CUDA device
// it launches and returns, as a run does; the first call loads its kernel, so it comes before a capture.
enum AttnStatus attn_merge_state(const struct AttnStream *stream,
                                 const struct AttnState *a,
                                 const struct AttnState *b,
                                 const struct AttnState *out);

// Merges `b` into `a`, for the tokens whose entry of `mask` is not 0: a byte a token, in memory of the engine; null is
// all tokens. Otherwise as `attn_merge_state`.
enum AttnStatus attn_merge_state_in_place(const struct AttnStream *stream,
                                          const struct AttnState *a,
                                          const struct AttnState *b,
                                          const uint8_t *mask);

// Merges any number of states: `o` of (tokens, states, heads, value dim) and `lse` of (tokens, states, heads), into
// `out` of one state. Otherwise as `attn_merge_state`.
enum AttnStatus attn_merge_states(const struct AttnStream *stream,
                                  const struct AttnState *states,
                                  const struct AttnState *out);

// Adds outputs of variants that divide by no sum of weights, over disjoint keys: (tokens, heads, value dim). Otherwise
// as `attn_merge_state`.
enum AttnStatus attn_merge_sums(const struct AttnStream *stream,
                                const struct AttnTensor *a,
                                const struct AttnTensor *b,
                                const struct AttnTensor *o);

// Converts log-sum-exps from natural logarithms, which attn-rs writes, to base 2, in place: (tokens) or (tokens,
// heads) in f32.
enum AttnStatus attn_lse_to_base_2(const struct AttnStream *stream, const struct AttnTensor *lse);

// Converts log-sum-exps from base 2, which FlashInfer writes, to natural logarithms, as `attn_lse_to_base_2`.
enum AttnStatus attn_lse_from_base_2(const struct AttnStream *stream, const struct AttnTensor *lse);

// Makes the id of a new group of CUDA devices, `ATTN_GROUP_ID_BYTES` bytes, which one rank makes and all are given.
enum AttnStatus attn_communicator_new_id(uint8_t *id);

// Joins the group of an id as one of its ranks, each on a CUDA device of its own. `limit` is how many seconds ranks
// wait for each other, here and in `attn_communicator_wait`.
enum AttnStatus attn_communicator_join(const struct AttnEngine *engine,
                                       const uint8_t *id,
                                       size_t rank,
                                       size_t ranks,
                                       double limit,
                                       struct AttnCommunicator **out);

// Borrows an `ncclComm_t` of the engine's device, which outlives what is made of it. Nobody else calls it while a call
// here runs. It is never aborted here: where a rank fails, calls return errors, and the caller aborts it, so that its
// work ends.
enum AttnStatus attn_communicator_from_raw(const struct AttnEngine *engine,
                                           void *nccl_comm,
                                           double limit,
                                           struct AttnCommunicator **out);

// The ranks of a group of threads, whose engines are CPUs: `ranks` handles, each for a thread.
enum AttnStatus attn_communicator_threads(size_t ranks, double limit, struct AttnCommunicator **out);

// Waits for the work of a stream no longer than the limit of the group. Work that waits for a rank that failed never
// ends on a device: it is aborted then, this and later calls of the group fail, and the text says why.
enum AttnStatus attn_communicator_wait(const struct AttnCommunicator *communicator, const struct AttnStream *stream);

// Breaks the group: its calls fail with this text, and other ranks get an error where they wait.
enum AttnStatus attn_communicator_abort(const struct AttnCommunicator *communicator, const char *why);

// Frees a rank. On the CPU the others then fail where they wait for it.
void attn_communicator_free(struct AttnCommunicator *communicator);

// Memory for the states of up to `tokens` query tokens of an attention. With `scatter_heads` a rank receives the
// outputs of its own heads alone, as many as heads / ranks (all-to-all); else those of all (all-gather). Refused are
// variants with an output transform, and those that read positions outside of a `remap`, or the number of keys.
enum AttnStatus attn_decode_context_parallel_new(const struct AttnAttention *attention,
                                                 const struct AttnCommunicator *communicator,
                                                 size_t tokens,
                                                 bool scatter_heads,
                                                 struct AttnDecodeContextParallel **out);

// Runs the plan of this rank, which is over its own keys, possibly none, and merges the states of all ranks into the
// output of `run`; with `scatter_heads` it has the heads of this rank. Outputs that are not divided by the sum of
// weights are added up, and have no log-sum-exps. `run.partial` has no meaning here. As `attn_plan_run`, it launches
// and returns, and a graph can capture it after a first run.
enum AttnStatus attn_decode_context_parallel_run(const struct AttnDecodeContextParallel *parallel,
                                                 const struct AttnPlan *plan,
                                                 const struct AttnStream *stream,
                                                 const struct AttnRun *run);

// Frees the memory for states.
void attn_decode_context_parallel_free(struct AttnDecodeContextParallel *parallel);

// Plans a batch. With a `capacity` the plan can be updated to other batches up to that one; without, it is null.
// Kernels that are not cached are compiled now.
enum AttnStatus attn_plan_new(const struct AttnAttention *attention,
                              const struct AttnBatch *batch,
                              const struct AttnCapacity *capacity,
                              struct AttnPlan **out);

// Updates a plan that has a capacity to another batch, in the order of the stream. Captured runs that are replayed
// later compute that batch. A call that fails changes nothing.
enum AttnStatus attn_plan_update(struct AttnPlan *plan, const struct AttnStream *stream, const struct AttnBatch *batch);

// Updates a plan that has a capacity to a batch whose arrays are on the device, in the order of the stream: a kernel
// reads lengths and pages and writes the work list, so that the host neither waits nor learns the lengths. It can be
// captured together with runs; the arrays then live as long as the graph, and each replay plans what they hold. With a
// batch that is not sound, or past the capacity, runs write nothing, and `attn_plan_device_status` tells why; on the
// CPU it is the error of this call. On a CUDA device the plans of some attentions are refused, and updated by the host
// alone: of those whose keys come from lists or of several variants. Levels run as they are.
enum AttnStatus attn_plan_update_on_device(struct AttnPlan *plan,
                                           const struct AttnStream *stream,
                                           const struct AttnDeviceBatch *batch);

// Compiles and loads the kernel of `attn_plan_update_on_device`, unless it is loaded, so that the first update can be
// captured.
enum AttnStatus attn_plan_prepare_device_updates(struct AttnPlan *plan);

// The error of the batch that the device planned last, if any. Waits for everything that was launched on the device.
enum AttnStatus attn_plan_device_status(const struct AttnPlan *plan, const struct AttnStream *stream);

// Runs the attention of a plan. On a CUDA device it launches and returns: it allocates nothing and waits for nothing,
// so that a graph can capture it. The tensors stay until the stream has executed it. On the CPU it returns when it is
// done. Without a capacity, tensors have the tokens of the batch; with one they may have more, of which outputs are
// left as they are. Outputs share no memory with each other or with an input.
enum AttnStatus attn_plan_run(const struct AttnPlan *plan, const struct AttnStream *stream, const struct AttnRun *run);

// Lets go of the memory and kernels that a CUDA graph of yours captured with runs of this plan, which must not be
// replayed any more. They are kept until then, also after `attn_plan_free`; `attn_engine_release_captured` releases
// those of plans that are gone. The plan itself goes on.
enum AttnStatus attn_plan_release_captured(const struct AttnPlan *plan);

// Frees a plan. On a CUDA device this waits for its runs. What a CUDA graph captured of it stays
// (`attn_plan_release_captured`).
void attn_plan_free(struct AttnPlan *plan);

// Draws a token of each row of logits: (rows, vocab) in f16, bf16 or f32. Outputs share no memory with each other or
// with an input. On a CUDA device it launches and returns, as a run does; `attn_sampling_prepare` comes before a
// capture.
enum AttnStatus attn_sample(const struct AttnStream *stream,
                            const struct AttnTensor *logits,
                            const struct AttnSampling *params,
                            const struct AttnSampleOut *out);

// Draws a token of each row of probabilities, which need not sum to 1. They have neither temperature nor penalties.
// Otherwise as `attn_sample`, after `attn_sampling_prepare_probs`.
enum AttnStatus attn_sample_probs(const struct AttnStream *stream,
                                  const struct AttnTensor *probs,
                                  const struct AttnSampling *params,
                                  const struct AttnSampleOut *out);

// Writes the probabilities of logits after token mask, temperature and filters: (rows, vocab) in f32. Seeds are not
// read, and penalties are refused. Otherwise as `attn_sample`.
enum AttnStatus attn_softmax(const struct AttnStream *stream,
                             const struct AttnTensor *logits,
                             const struct AttnSampling *params,
                             const struct AttnTensor *out);

// Writes probabilities that are divided by the sum of those that the filters keep, and 0 for others: (rows, vocab) in
// f32. Otherwise as `attn_softmax`, after `attn_sampling_prepare_probs`.
enum AttnStatus attn_renorm_probs(const struct AttnStream *stream,
                                  const struct AttnTensor *probs,
                                  const struct AttnSampling *params,
                                  const struct AttnTensor *out);

// Writes the logits that the filters keep, and -inf for others: (rows, vocab) in f32. Otherwise as `attn_softmax`.
enum AttnStatus attn_mask_logits(const struct AttnStream *stream,
                                 const struct AttnTensor *logits,
                                 const struct AttnSampling *params,
                                 const struct AttnTensor *out);

// Compiles and loads the kernels of sampling from logits of a type, an `AttnDtype`, so that the first call can be
// captured.
enum AttnStatus attn_sampling_prepare(const struct AttnEngine *engine, uint32_t logits);

// Compiles and loads the kernels of sampling from probabilities of a type, as `attn_sampling_prepare`.
enum AttnStatus attn_sampling_prepare_probs(const struct AttnEngine *engine, uint32_t probs);

// The text of the last call of this thread that failed; null if none did. It stays until the next one fails.
const char *attn_last_error(void);

// A new stream.
enum AttnStatus attn_stream_new(const struct AttnEngine *engine, struct AttnStream **out);

// A stream that the caller made: a `CUstream` or `cudaStream_t` of the device's primary context, which outlives this
// handle. Null is the default stream.
enum AttnStatus attn_stream_from_raw(const struct AttnEngine *engine, void *stream, struct AttnStream **out);

// Waits for everything that was launched on the stream.
enum AttnStatus attn_stream_synchronize(const struct AttnStream *stream);

// Frees a stream. One that the caller made stays.
void attn_stream_free(struct AttnStream *stream);

// The number of variants: the stock ones, and those of a library of one's own.
size_t attn_variant_count(void);

// The name of a variant, in the order of names; null past the last.
const char *attn_variant_name(size_t index);

// What a variant is: a line, and where it comes from; null past the last.
const char *attn_variant_doc(size_t index);

// Whether an expression is a variant, such as `causal + sliding_window(window=1024)`.
enum AttnStatus attn_variant_check(const char *expression);

// Verifies chains of drafts: draft i is emitted with probability `min(1, target / draft)`; the first that is not is
// replaced by a draw from `max(target - draft, 0)`; behind all drafts follows a draw from the last target. Outputs
// share no memory with each other or with an input. On a CUDA device it launches and returns, as a run does;
// `attn_sampling_prepare_verify` comes before a capture.
enum AttnStatus attn_verify_chain(const struct AttnStream *stream,
                                  const struct AttnChainDrafts *drafts,
                                  const struct AttnChainOut *out);

// Verifies trees of drafts. Behind an accepted node one random number goes through its children: the first up to which
// their probabilities add up to it is accepted. If none is, a token is drawn from the others. Otherwise as
// `attn_verify_chain`.
enum AttnStatus attn_verify_tree(const struct AttnStream *stream,
                                 const struct AttnTreeDrafts *drafts,
                                 const struct AttnTreeOut *out);

// Compiles and loads the kernels of `attn_verify_chain` and `attn_verify_tree`, so that the first call can be
// captured.
enum AttnStatus attn_sampling_prepare_verify(const struct AttnEngine *engine);

#ifdef __cplusplus
}  // extern "C"
#endif  // __cplusplus

#endif  /* ATTN_H */
