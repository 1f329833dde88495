/* attn-rs for C. Made by cbindgen from bindings/c/src; https://github.com/attn-rs/attn-rs has the guide. */

#ifndef ATTN_H
#define ATTN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

// The version of this interface. It grows with each addition; what a version has stays in later ones.
#define ATTN_ABI_VERSION 5

// The greatest rank of a tensor.
#define ATTN_MAX_RANK 5

// How a call ended. [`attn_last_error`] has the text.
typedef enum {
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
typedef enum {
  // One after the other: `kv_indptr`.
  ATTN_BATCH_KIND_RAGGED = 0,
  // In pages that are listed one request after the other (CSR): `page_indptr`, `page_indices`, `last_page_len`.
  ATTN_BATCH_KIND_PAGED = 1,
  // In pages, with as many entries for each request: `page_indices` of (requests, `pages_per_request`), `kv_lens`.
  ATTN_BATCH_KIND_BLOCK_TABLE = 2,
} AttnBatchKind;

// The type of the elements of a tensor.
typedef enum {
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
typedef enum {
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
typedef enum {
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
typedef enum {
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
typedef enum {
  // The elements of the tensors.
  ATTN_COMPUTE_TYPE_EXACT = 0,
  // Queries and probabilities rounded to e4m3, over keys and values of e4m3.
  ATTN_COMPUTE_TYPE_E4M3 = 1,
} AttnComputeType;

// A variant bound to heads, element types and an engine. It makes plans.
typedef struct AttnAttention AttnAttention;

// A device that attention runs on: a CUDA device, or the CPU.
typedef struct AttnEngine AttnEngine;

// A planned batch, with the memory of its work list and partial states. It can run any number of times.
typedef struct AttnPlan AttnPlan;

// The order of runs on a device. On the CPU a run returns when it is done, and a stream does nothing.
typedef struct AttnStream AttnStream;

// Elements in memory of the engine's device: of the host where it is the CPU. One pool for all layers is a base
// address a layer with the stride of a page.
typedef struct {
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
typedef struct {
  // `sizeof(AttnAppend)`.
  size_t size;
  // New keys: (tokens, KV heads, head dim).
  AttnTensor k;
  // New values: (tokens, KV heads, value dim); zero where values are in keys.
  AttnTensor v;
  // The pool of keys, as `kv_layout` says.
  AttnTensor k_pool;
  // The pool of values; zero for a fused pool, and where values are in keys.
  AttnTensor v_pool;
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
  AttnTensor k_side;
  // The pool of the side data of values.
  AttnTensor v_side;
} AttnAppend;

// What an attention is made of. Zero it, then set `size` and what differs from zero.
typedef struct {
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
typedef struct {
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
typedef struct {
  // The output, divided by its own sum of weights: (tokens, heads, value dim) in f16, bf16 or f32.
  AttnTensor o;
  // The log-sum-exp of its logits: (tokens, heads) in f32, natural logarithm; `-inf` for a row without keys.
  AttnTensor lse;
} AttnState;

// A batch of requests. All arrays are in host memory, and are read during the call.
typedef struct {
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
} AttnBatch;

// The largest batch of a plan that is updated in place.
typedef struct {
  // `sizeof(AttnCapacity)`.
  size_t size;
  // Requests.
  uint32_t requests;
  // Query tokens of all requests.
  uint32_t qo_tokens;
  // Keys of all requests.
  uint32_t kv_tokens;
  // Tokens of a page; 0 where keys are ragged.
  uint32_t page_size;
  // Pages of the pool.
  uint32_t num_pages;
  // 0.
  uint32_t reserved;
} AttnCapacity;

// What a run reads and writes. Zero it, then set `size` and what differs from zero.
typedef struct {
  // `sizeof(AttnRun)`.
  size_t size;
  // Queries: (query tokens, query heads, head dim).
  AttnTensor q;
  // Keys: (keys, KV heads, head dim) where the batch is ragged, else a pool as `kv_layout` says.
  AttnTensor k;
  // Values, as the keys; zero for a fused pool, and where values are in keys.
  AttnTensor v;
  // The output: (query tokens, query heads, value dim).
  AttnTensor o;
  // If its data is not null: the log-sum-exp of each row of logits, f32 of (query tokens, query heads).
  AttnTensor lse;
  // The attention of another layer (`attn_attention_with_parameters`); null for that of the plan.
  const AttnAttention *layer;
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
  AttnTensor k_side;
  // Side data of values, as that of keys; zero where values are in keys.
  AttnTensor v_side;
} AttnRun;

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
AttnStatus attn_append(const AttnStream *stream, const AttnAttention *attention, const AttnAppend *append);

// Binds a variant to heads and element types.
AttnStatus attn_attention_new(const AttnEngine *engine, const AttnSpec *spec, AttnAttention **out);

// The same attention with other parameters of its variant: that of another layer, which runs plans of this one
// (`AttnRun.layer`) if it sees the same keys. `sm_scale` 0 is that of this attention.
AttnStatus attn_attention_with_parameters(const AttnAttention *attention,
                                          const char *variant,
                                          float sm_scale,
                                          AttnAttention **out);

// Frees an attention. Plans of it stay.
void attn_attention_free(AttnAttention *attention);

// Replaces the content of a parameter tensor in place, in the order of the stream, while plans of the attention live
// on; later appends for the attention (`attn_append`) transform by it too. `name` is that of a field (`logits`), or
// with its part before it (`sink.logits`). On a CUDA device it launches and returns, and the content stays until then.
AttnStatus attn_set_tensor(const AttnStream *stream,
                           const AttnAttention *attention,
                           const char *name,
                           const AttnContent *content);

// Writes rows of a parameter tensor, as `attn_set_tensor`: the new tokens of a table that grows with the sequences.
AttnStatus attn_set_tensor_rows(const AttnStream *stream,
                                const AttnAttention *attention,
                                const char *name,
                                const AttnContent *content);

// CUDA device 0 if there is one, else the CPU.
AttnStatus attn_engine_auto(AttnEngine **out);

// The CPU, with all its threads.
AttnStatus attn_engine_cpu(AttnEngine **out);

// A CUDA device, through its primary context.
AttnStatus attn_engine_cuda(uint32_t ordinal, AttnEngine **out);

// Whether the engine is the CPU, so that tensors are in host memory.
bool attn_engine_is_cpu(const AttnEngine *engine);

// Loads costs of the engine's GPU from a file that `attn calibrate --out FILE` wrote. What is made of the engine
// afterwards chooses kernels and plans by them, in place of the file that `ATTN_COSTS` names. The CPU has no use for
// them. Nothing else may use the engine during the call; one that fails leaves it as it was.
AttnStatus attn_engine_load_costs(AttnEngine *engine, const char *path);

// Lets go of what CUDA graphs of yours captured on the device: of plans (`attn_plan_release_captured`), attentions,
// appends and merges, whether their handles are freed or not. None of these graphs may be replayed any more.
AttnStatus attn_engine_release_captured(const AttnEngine *engine);

// Frees an engine. What was made of it stays.
void attn_engine_free(AttnEngine *engine);

// Merges two states over disjoint keys into `out`, which shares no memory with them and may have no log-sum-exp. A
// state without keys changes nothing, whatever its output holds. At most one of the two has a sink. On a CUDA device
// it launches and returns, as a run does; the first call loads its kernel, so it comes before a capture.
AttnStatus attn_merge_state(const AttnStream *stream, const AttnState *a, const AttnState *b, const AttnState *out);

// Merges `b` into `a`, for the tokens whose entry of `mask` is not 0: a byte a token, in memory of the engine; null is
// all tokens. Otherwise as `attn_merge_state`.
AttnStatus attn_merge_state_in_place(const AttnStream *stream,
                                     const AttnState *a,
                                     const AttnState *b,
                                     const uint8_t *mask);

// Merges any number of states: `o` of (tokens, states, heads, value dim) and `lse` of (tokens, states, heads), into
// `out` of one state. Otherwise as `attn_merge_state`.
AttnStatus attn_merge_states(const AttnStream *stream, const AttnState *states, const AttnState *out);

// Plans a batch. With a `capacity` the plan can be updated to other batches up to that one; without, it is null.
// Kernels that are not cached are compiled now.
AttnStatus attn_plan_new(const AttnAttention *attention,
                         const AttnBatch *batch,
                         const AttnCapacity *capacity,
                         AttnPlan **out);

// Updates a plan that has a capacity to another batch, in the order of the stream. Captured runs that are replayed
// later compute that batch. A call that fails changes nothing.
AttnStatus attn_plan_update(AttnPlan *plan, const AttnStream *stream, const AttnBatch *batch);

// Runs the attention of a plan. On a CUDA device it launches and returns: it allocates nothing and waits for nothing,
// so that a graph can capture it. The tensors stay until the stream has executed it. On the CPU it returns when it is
// done. Without a capacity, tensors have the tokens of the batch; with one they may have more, of which outputs are
// left as they are. Outputs share no memory with each other or with an input.
AttnStatus attn_plan_run(const AttnPlan *plan, const AttnStream *stream, const AttnRun *run);

// Lets go of the memory and kernels that a CUDA graph of yours captured with runs of this plan, which must not be
// replayed any more. They are kept until then, also after `attn_plan_free`; `attn_engine_release_captured` releases
// those of plans that are gone. The plan itself goes on.
AttnStatus attn_plan_release_captured(const AttnPlan *plan);

// Frees a plan. On a CUDA device this waits for its runs. What a CUDA graph captured of it stays
// (`attn_plan_release_captured`).
void attn_plan_free(AttnPlan *plan);

// The text of the last call of this thread that failed; null if none did. It stays until the next one fails.
const char *attn_last_error(void);

// A new stream.
AttnStatus attn_stream_new(const AttnEngine *engine, AttnStream **out);

// A stream that the caller made: a `CUstream` or `cudaStream_t` of the device's primary context, which outlives this
// handle. Null is the default stream.
AttnStatus attn_stream_from_raw(const AttnEngine *engine, void *stream, AttnStream **out);

// Waits for everything that was launched on the stream.
AttnStatus attn_stream_synchronize(const AttnStream *stream);

// Frees a stream. One that the caller made stays.
void attn_stream_free(AttnStream *stream);

// The number of variants: the stock ones, and those of a library of one's own.
size_t attn_variant_count(void);

// The name of a variant, in the order of names; null past the last.
const char *attn_variant_name(size_t index);

// What a variant is: a line, and where it comes from; null past the last.
const char *attn_variant_doc(size_t index);

// Whether an expression is a variant, such as `causal + sliding_window(window=1024)`.
AttnStatus attn_variant_check(const char *expression);

#ifdef __cplusplus
}  // extern "C"
#endif  // __cplusplus

#endif  /* ATTN_H */
