// Attention on the CPU or on a GPU: the same calls, over memory of either.
#ifndef SIDE_H
#define SIDE_H

#include <math.h>

#include "check.h"
#include "driver.h"

enum { QO_HEADS = 8, KV_HEADS = 2, DIM = 64, PAGE = 16, PAGES = 48, MOST_REQUESTS = 4, MOST_ROWS = 128 };
enum { ROW = QO_HEADS * DIM, POOL = PAGES * PAGE * KV_HEADS * DIM };

// An engine with a stream, which on a GPU is that of the caller, and the memory that it gave out.
typedef struct {
  AttnEngine *engine;
  AttnStream *stream;
  CUstream raw;
  int is_gpu, count;
  void *owned[256];
} Side;

static inline void open_side(Side *side, int is_gpu) {
  memset(side, 0, sizeof *side);
  side->is_gpu = is_gpu;
  if (!is_gpu) {
    OK(attn_engine_cpu(&side->engine));
    OK(attn_stream_new(side->engine, &side->stream));
    return;
  }
  OK(attn_engine_cuda(0, &side->engine));
  CU(cu.stream_create(&side->raw, CU_STREAM_NON_BLOCKING));
  OK(attn_stream_from_raw(side->engine, side->raw, &side->stream));
}

// Copies to memory of the side, at once.
static inline void set(const Side *side, void *to, const void *from, size_t bytes) {
  if (!side->is_gpu) {
    memcpy(to, from, bytes);
    return;
  }
  CU(cu.to_device((CUdeviceptr)(uintptr_t)to, from, bytes, side->raw));
  CU(cu.stream_synchronize(side->raw));
}

// `bytes` of memory of the side, with the content of `data`, or zeros where it is null.
static inline void *put(Side *side, const void *data, size_t bytes) {
  void *zeros = calloc(bytes, 1), *memory = zeros;
  REQUIRE(zeros != NULL && side->count < 256);
  if (side->is_gpu) {
    CUdeviceptr address = 0;
    CU(cu.mem_alloc(&address, bytes));
    memory = (void *)(uintptr_t)address;
  }
  if (data != NULL || side->is_gpu) set(side, memory, data != NULL ? data : zeros, bytes);
  if (side->is_gpu) free(zeros);
  return side->owned[side->count++] = memory;
}

// Waits for the stream, and copies from memory of the side.
static inline void get(const Side *side, void *to, const void *from, size_t bytes) {
  OK(attn_stream_synchronize(side->stream));
  if (!side->is_gpu) {
    memcpy(to, from, bytes);
    return;
  }
  CU(cu.to_host(to, (CUdeviceptr)(uintptr_t)from, bytes, side->raw));
  CU(cu.stream_synchronize(side->raw));
}

static inline void close_side(Side *side) {
  attn_stream_free(side->stream);
  attn_engine_free(side->engine);
  for (int i = 0; i < side->count; ++i) {
    if (side->is_gpu)
      CU(cu.mem_free((CUdeviceptr)(uintptr_t)side->owned[i]));
    else
      free(side->owned[i]);
  }
  if (side->is_gpu) CU(cu.stream_destroy(side->raw));
}

// bfloat16 has the high half of a float.
static inline float from_bf16(uint16_t bits) {
  uint32_t wide = (uint32_t)bits << 16;
  float value;
  memcpy(&value, &wide, sizeof value);
  return value;
}

// Multiples of 1/64 below 1 in size, which bfloat16 has.
static inline void fill(uint16_t *to, size_t count) {
  for (size_t i = 0; i < count; ++i) {
    float value = floorf(random_number() * 64.0f) / 64.0f;
    uint32_t bits;
    memcpy(&bits, &value, sizeof bits);
    to[i] = (uint16_t)(bits >> 16);
  }
}

// Requests over pages of one pool. Those of a request are scattered, and begin at `first` in the order of pages.
typedef struct {
  AttnBatch batch;
  int32_t qo_indptr[MOST_REQUESTS + 1], page_indptr[MOST_REQUESTS + 1], pages[PAGES], last_page_len[MOST_REQUESTS];
} Requests;

static inline void requests_of(Requests *r, int count, const int *queries, const int *keys, const int *first) {
  memset(r, 0, sizeof *r);
  int listed = 0;
  for (int i = 0; i < count; ++i) {
    int pages = (keys[i] + PAGE - 1) / PAGE;
    r->qo_indptr[i + 1] = r->qo_indptr[i] + queries[i];
    for (int page = 0; page < pages; ++page) r->pages[listed++] = (first[i] + page) * 7 % PAGES;
    r->page_indptr[i + 1] = listed;
    r->last_page_len[i] = keys[i] - (pages - 1) * PAGE;
  }
  AttnBatch *batch = &r->batch;
  batch->size = sizeof *batch;
  batch->requests = (size_t)count;
  batch->kind = ATTN_BATCH_KIND_PAGED;
  batch->page_size = PAGE;
  batch->num_pages = PAGES;
  batch->qo_indptr = r->qo_indptr;
  batch->page_indptr = r->page_indptr;
  batch->page_indices = r->pages;
  batch->last_page_len = r->last_page_len;
}

static inline AttnAttention *attention_of(const Side *side, const char *variant) {
  AttnSpec spec;
  memset(&spec, 0, sizeof spec);
  spec.size = sizeof spec;
  spec.variant = variant;
  spec.qo_heads = QO_HEADS;
  spec.kv_heads = KV_HEADS;
  spec.head_dim = DIM;
  spec.qo_dtype = spec.kv_dtype = ATTN_DTYPE_BF16;
  AttnAttention *attention = NULL;
  OK(attn_attention_new(side->engine, &spec, &attention));
  return attention;
}

// A plan; with `rows` it can be updated up to as many query tokens, and to all pages.
static inline AttnPlan *plan_of(const AttnAttention *attention, const Requests *r, int rows) {
  AttnCapacity capacity;
  memset(&capacity, 0, sizeof capacity);
  capacity.size = sizeof capacity;
  capacity.requests = MOST_REQUESTS;
  capacity.qo_tokens = (uint32_t)rows;
  capacity.kv_tokens = PAGES * PAGE;
  capacity.page_size = PAGE;
  capacity.num_pages = PAGES;
  AttnPlan *plan = NULL;
  OK(attn_plan_new(attention, &r->batch, rows > 0 ? &capacity : NULL, &plan));
  return plan;
}

// The largest difference of two arrays of bfloat16.
static inline double apart(const uint16_t *a, const uint16_t *b, size_t count) {
  double worst = 0;
  for (size_t i = 0; i < count; ++i) {
    double difference = fabs((double)from_bf16(a[i]) - (double)from_bf16(b[i]));
    if (!(difference <= worst)) worst = difference; // NaN too
  }
  return worst;
}

// The largest difference of a row of outputs in bfloat16 from what its queries attend to, in double: all keys at
// `slots` of arrays of (slots, KV heads, dim).
static inline double off(const uint16_t *o, const uint16_t *q, const uint16_t *k, const uint16_t *v, const int *slots,
                         int count) {
  double worst = 0;
  for (int h = 0; h < QO_HEADS; ++h) {
    double weights[PAGES * PAGE], sum = 0, want = 0;
    const int of_head = h / (QO_HEADS / KV_HEADS) * DIM;
    for (int t = 0; t < count; ++t) {
      double logit = 0;
      const uint16_t *key = k + slots[t] * KV_HEADS * DIM + of_head;
      for (int d = 0; d < DIM; ++d) logit += (double)from_bf16(q[h * DIM + d]) * from_bf16(key[d]);
      sum += weights[t] = exp(logit / sqrt((double)DIM));
    }
    for (int d = 0; d < DIM; ++d, want = 0) {
      for (int t = 0; t < count; ++t) want += weights[t] / sum * from_bf16(v[slots[t] * KV_HEADS * DIM + of_head + d]);
      double difference = fabs(want - from_bf16(o[h * DIM + d]));
      if (!(difference <= worst)) worst = difference; // NaN too
    }
  }
  return worst;
}

// Runs on the CPU, and on a GPU where there is one; says which.
static inline void on_both_sides(void (*run)(Side *)) {
  Side side;
  open_side(&side, 0);
  run(&side);
  close_side(&side);
  const char *why = load_driver();
  if (why != NULL) {
    printf("no GPU: %s\n", why);
  } else {
    open_side(&side, 1);
    run(&side);
    close_side(&side);
  }
  puts("ok");
}

#endif
