// What a run from C costs the host over the same run from Rust, on a GPU: medians of 10,000 asynchronous launches of a
// decode step each, which take turns. It fails where C costs more than 1 us on top. Linked to examples/overhead.rs.
#define _POSIX_C_SOURCE 200809L
#include <time.h>

#include "check.h"
#include "driver.h"

enum { LAUNCHES = 10000, QUEUED = 200, ROUNDS = LAUNCHES / QUEUED + 1, PAGE = 16, PAGES = 64 };
static const double ALLOWED = 1.0;

// examples/overhead.rs
typedef struct Timed Timed;
extern Timed *timed_new(void *stream, const uint64_t *tensors);
extern bool timed_runs(const Timed *timed, size_t count, uint64_t *nanoseconds);
extern void timed_free(Timed *timed);

static uint64_t now(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

static int ascending(const void *a, const void *b) {
  uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;
  return (x > y) - (x < y);
}

// The median in microseconds, without the first round, which warms up.
static double median(uint64_t *times) {
  qsort(times + QUEUED, LAUNCHES, sizeof *times, ascending);
  return (double)times[QUEUED + LAUNCHES / 2] / 1e3;
}

static AttnRun run_of(const uint64_t *tensors) {
  void *at[4];
  for (int i = 0; i < 4; ++i) at[i] = (void *)(uintptr_t)tensors[i];
  AttnRun run;
  memset(&run, 0, sizeof run);
  run.size = sizeof run;
  run.q = tensor(at[0], ATTN_DTYPE_BF16, 3, 1, 32, 128, 0);
  run.k = tensor(at[1], ATTN_DTYPE_BF16, 4, PAGES, PAGE, 8, 128);
  run.v = tensor(at[2], ATTN_DTYPE_BF16, 4, PAGES, PAGE, 8, 128);
  run.o = tensor(at[3], ATTN_DTYPE_BF16, 3, 1, 32, 128, 0);
  return run;
}

int main(void) {
  static uint64_t in_c[ROUNDS * QUEUED], filled_in[ROUNDS * QUEUED], in_rust[ROUNDS * QUEUED], asked[ROUNDS * QUEUED];
  const char *why = load_driver();
  if (why != NULL) {
    fprintf(stderr, "%s\n", why);
    return 1;
  }
  CUstream raw;
  CU(cu.stream_create(&raw, CU_STREAM_NON_BLOCKING));
  uint64_t tensors[4];
  const size_t bytes[4] = {32 * 128 * 2, PAGES * PAGE * 8 * 128 * 2, PAGES * PAGE * 8 * 128 * 2, 32 * 128 * 2};
  void *zeros = calloc(bytes[1], 1);
  for (int i = 0; i < 4; ++i) {
    CU(cu.mem_alloc(&tensors[i], bytes[i]));
    CU(cu.to_device(tensors[i], zeros, bytes[i], raw));
  }
  CU(cu.stream_synchronize(raw));

  AttnEngine *engine;
  AttnStream *stream;
  AttnAttention *attention;
  AttnPlan *plan;
  OK(attn_engine_cuda(0, &engine));
  OK(attn_stream_from_raw(engine, raw, &stream));
  AttnSpec spec;
  memset(&spec, 0, sizeof spec);
  spec.size = sizeof spec;
  spec.variant = "causal";
  spec.qo_heads = 32;
  spec.kv_heads = 8;
  spec.head_dim = 128;
  spec.qo_dtype = spec.kv_dtype = ATTN_DTYPE_BF16;
  OK(attn_attention_new(engine, &spec, &attention));
  int32_t pages[PAGES], qo_indptr[2] = {0, 1}, page_indptr[2] = {0, PAGES}, last_page_len = PAGE;
  for (int i = 0; i < PAGES; ++i) pages[i] = PAGES - 1 - i;
  AttnBatch batch;
  memset(&batch, 0, sizeof batch);
  batch.size = sizeof batch;
  batch.requests = 1;
  batch.kind = ATTN_BATCH_KIND_PAGED;
  batch.page_size = PAGE;
  batch.num_pages = PAGES;
  batch.qo_indptr = qo_indptr;
  batch.page_indptr = page_indptr;
  batch.page_indices = pages;
  batch.last_page_len = &last_page_len;
  AttnCapacity capacity;
  memset(&capacity, 0, sizeof capacity);
  capacity.size = sizeof capacity;
  capacity.requests = capacity.qo_tokens = 1;
  capacity.kv_tokens = PAGE * PAGES;
  capacity.page_size = PAGE;
  capacity.num_pages = PAGES;
  OK(attn_plan_new(attention, &batch, &capacity, &plan));
  Timed *timed = timed_new(raw, tensors);
  if (timed == NULL) {
    fprintf(stderr, "the plan in Rust failed\n");
    return 1;
  }

  AttnRun run = run_of(tensors);
  for (int round = 0; round < ROUNDS; ++round) {
    int first = round * QUEUED;
    if (!timed_runs(timed, QUEUED, in_rust + first)) {
      fprintf(stderr, "a run in Rust failed\n");
      return 1;
    }
    OK(attn_stream_synchronize(stream));
    for (int i = first; i < first + QUEUED; ++i) {
      uint64_t start = now();
      AttnStatus status = attn_plan_run(plan, stream, &run);
      in_c[i] = now() - start;
      OK(status);
    }
    OK(attn_stream_synchronize(stream));
    for (int i = first; i < first + QUEUED; ++i) {
      uint64_t start = now();
      AttnRun anew = run_of(tensors);
      AttnStatus status = attn_plan_run(plan, stream, &anew);
      filled_in[i] = now() - start;
      OK(status);
    }
    OK(attn_stream_synchronize(stream));
    for (int i = first; i < first + QUEUED; ++i) {
      uint64_t start = now();
      for (int j = 0; j < 4; ++j) {
        int attribute = CU_POINTER_MEMORY_TYPE;
        unsigned kind = 0;
        void *to = &kind;
        CU(cu.pointer_attributes(1, &attribute, &to, tensors[j]));
      }
      asked[i] = now() - start;
    }
  }
  double rust = median(in_rust), c = median(in_c), filled = median(filled_in);
  printf("a decode step of 1 request of 1,024 keys in pages, 32/8 heads of 128, bf16: %d launches each\n", LAUNCHES);
  printf("  attn::Plan::run                         %7.2f us\n", rust);
  printf("  attn_plan_run                           %7.2f us, %+.2f\n", c, c - rust);
  printf("  attn_plan_run, its struct filled first  %7.2f us, %+.2f\n", filled, filled - rust);
  printf("  cuPointerGetAttributes of 4 addresses   %7.2f us\n", median(asked));

  timed_free(timed);
  attn_plan_free(plan);
  attn_attention_free(attention);
  attn_stream_free(stream);
  attn_engine_free(engine);
  if (c - rust > ALLOWED) {
    fprintf(stderr, "%.2f us on top, and %.2f are allowed\n", c - rust, ALLOWED);
    return 1;
  }
  return 0;
}
