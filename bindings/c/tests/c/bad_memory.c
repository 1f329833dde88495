// Memory of the caller that a call cannot take, on the CPU: outputs that are other tensors too, rows of another batch,
// addresses between those of elements, counts that are none. C11 and C++17.
#include <math.h>

#include "check.h"

enum { N = 70, HEADS = 2, DIM = 32, ROW = HEADS * DIM, PAGES = 3, PAGE = 4, MOST = 5 };

static float memory[16 * N * ROW], first_o[N * ROW];
static float pool[PAGES][2][PAGE][HEADS][DIM];
static float k_apart[PAGES][PAGE][HEADS][DIM], v_apart[PAGES][PAGE][HEADS][DIM];

static AttnTensor floats(void *data, int64_t a, int64_t b, int64_t c) {
  return tensor(data, ATTN_DTYPE_F32, c == 0 ? 2 : 3, a, b, c, 0);
}

static AttnTensor rows(void *data) {
  return floats(data, N, HEADS, DIM);
}

// A half of each page.
static AttnTensor half(void *data) {
  AttnTensor t = tensor(data, ATTN_DTYPE_F32, 4, PAGES, PAGE, HEADS, DIM);
  t.strides[0] = 2 * PAGE * ROW, t.strides[1] = ROW, t.strides[2] = DIM, t.strides[3] = 1;
  return t;
}

static AttnBatch ragged(const int32_t *indptr) {
  AttnBatch batch;
  memset(&batch, 0, sizeof batch);
  batch.size = sizeof batch;
  batch.requests = 1;
  batch.qo_indptr = batch.kv_indptr = indptr;
  return batch;
}

// Nothing is written by a call that fails.
static float before[16 * N * ROW];
#define REFUSED_AND_UNCHANGED(call, status, words)                 \
  do {                                                             \
    memcpy(before, memory, sizeof memory);                         \
    REFUSED(call, status, words);                                  \
    REQUIRE(memcmp(before, memory, sizeof memory) == 0);           \
  } while (0)

static void outputs(AttnPlan *plan, AttnStream *stream) {
  float *q = memory, *k = q + N * ROW, *v = k + N * ROW, *o = v + N * ROW, *lse = o + N * ROW;
  AttnRun good, run;
  memset(&good, 0, sizeof good);
  good.size = sizeof good;
  good.q = rows(q), good.k = rows(k), good.v = rows(v), good.o = rows(o), good.lse = floats(lse, N, HEADS, 0);
  OK(attn_plan_run(plan, stream, &good));
  memcpy(first_o, o, sizeof first_o);

  const AttnStatus refused = ATTN_STATUS_INVALID_TENSOR;
  const struct { float *o; const char *other; } places[] = {
    {q, "q"}, {k, "k"}, {v, "v"}, {v + 1, "v"}, {v + N * ROW - 1, "v"}, {o + ROW, "lse"}, {lse, "lse"},
  };
  for (size_t i = 0; i < sizeof places / sizeof *places; ++i) {
    char words[64];
    snprintf(words, sizeof words, "o shares memory with %s", places[i].other);
    run = good;
    run.o = rows(places[i].o);
    REFUSED_AND_UNCHANGED(attn_plan_run(plan, stream, &run), refused, words);
  }
  run = good;
  run.lse.data = v;
  REFUSED_AND_UNCHANGED(attn_plan_run(plan, stream, &run), refused, "lse shares memory with v");

  // between the elements of q: (tokens, q and o, heads, dim)
  float *both = lse + N * ROW;
  run = good;
  run.q = rows(both), run.o = rows(both + ROW);
  run.q.strides[0] = run.o.strides[0] = 2 * ROW, run.q.strides[1] = run.o.strides[1] = DIM;
  run.q.strides[2] = run.o.strides[2] = 1;
  for (int i = 0; i < N; ++i) memcpy(both + 2 * i * ROW, q + i * ROW, ROW * sizeof *q);
  OK(attn_plan_run(plan, stream, &run));
  for (int i = 0; i < N; ++i) REQUIRE(memcmp(both + (2 * i + 1) * ROW, first_o + i * ROW, ROW * sizeof *q) == 0);
  run.o.data = both + ROW - 1;
  REFUSED_AND_UNCHANGED(attn_plan_run(plan, stream, &run), refused, "o shares memory with q");

  // without a capacity tensors have the tokens of the batch
  struct { const char *name; size_t at; } const tensors[] = {
    {"q has", offsetof(AttnRun, q)}, {"k has", offsetof(AttnRun, k)}, {"v has", offsetof(AttnRun, v)},
    {"o has", offsetof(AttnRun, o)}, {"lse has", offsetof(AttnRun, lse)},
  };
  for (size_t i = 0; i < sizeof tensors / sizeof *tensors; ++i) {
    for (int more = -1; more <= 1; more += 2) {
      run = good;
      AttnTensor *t = (AttnTensor *)(void *)((char *)&run + tensors[i].at);
      t->shape[0] = N + more;
      REFUSED_AND_UNCHANGED(attn_plan_run(plan, stream, &run), refused, tensors[i].name);
    }
  }

  // addresses between those of elements, and lengths that are none
  run = good;
  run.o.data = (char *)o + 1;
  REFUSED_AND_UNCHANGED(attn_plan_run(plan, stream, &run), ATTN_STATUS_INVALID_ARGUMENT, "o.data is no multiple of 4");
  run = good;
  run.k.shape[0] = INT64_MAX;
  REFUSED_AND_UNCHANGED(attn_plan_run(plan, stream, &run), refused, "");
  run.k.shape[0] = -1;
  REFUSED_AND_UNCHANGED(attn_plan_run(plan, stream, &run), ATTN_STATUS_INVALID_ARGUMENT, "a length of -1");
  run = good;
  run.layer = (const AttnAttention *)(const void *)((const char *)plan + 1);
  REFUSED_AND_UNCHANGED(attn_plan_run(plan, stream, &run), ATTN_STATUS_INVALID_ARGUMENT, "the layer is at no multiple");
}

static void capacities(AttnAttention *attention, AttnStream *stream) {
  const int32_t indptr[] = {0, 3};
  AttnBatch batch = ragged(indptr);
  AttnCapacity capacity;
  memset(&capacity, 0, sizeof capacity);
  capacity.size = sizeof capacity;
  capacity.requests = 1, capacity.qo_tokens = MOST, capacity.kv_tokens = MOST;
  AttnPlan *plan;
  OK(attn_plan_new(attention, &batch, &capacity, &plan));
  float *q = memory, *o = q + MOST * ROW;
  for (int i = 0; i < MOST * ROW; ++i) o[i] = 7;
  AttnRun run;
  memset(&run, 0, sizeof run);
  run.size = sizeof run;
  run.q = run.k = run.v = floats(q, MOST, HEADS, DIM);
  run.o = floats(o, MOST, HEADS, DIM);
  OK(attn_plan_run(plan, stream, &run));
  for (int i = 0; i < MOST * ROW; ++i) REQUIRE((o[i] == 7) == (i >= 3 * ROW)); // rows past the batch stay
  run.q.shape[0] = 2;
  REFUSED(attn_plan_run(plan, stream, &run), ATTN_STATUS_INVALID_TENSOR, "q has 2 tokens; this run needs at least 3");
  OK(attn_plan_release_captured(plan)); // of the CPU nothing is captured
  attn_plan_free(plan);
}

static void appends(AttnStream *stream) {
  static float k[2][HEADS][DIM], v[2][HEADS][DIM];
  for (int i = 0; i < 2 * ROW; ++i) (&k[0][0][0])[i] = random_number(), (&v[0][0][0])[i] = random_number();
  int64_t slots[] = {5, 10}, words[4] = {0};
  AttnAppend append, bad;
  memset(&append, 0, sizeof append);
  append.size = sizeof append;
  append.k = floats(k, 2, HEADS, DIM), append.v = floats(v, 2, HEADS, DIM);
  append.k_pool = half(pool[0][0]), append.v_pool = half(pool[0][1]);
  append.slots = slots, append.tokens = 2;
  OK(attn_append(stream, NULL, &append));
  bad = append;
  bad.k_pool = tensor(k_apart, ATTN_DTYPE_F32, 4, PAGES, PAGE, HEADS, DIM);
  bad.v_pool = tensor(v_apart, ATTN_DTYPE_F32, 4, PAGES, PAGE, HEADS, DIM);
  OK(attn_append(stream, NULL, &bad));
  for (int page = 0; page < PAGES; ++page) {
    REQUIRE(memcmp(pool[page][0], k_apart[page], sizeof k_apart[page]) == 0);
    REQUIRE(memcmp(pool[page][1], v_apart[page], sizeof v_apart[page]) == 0);
  }
  bad.v_pool.data = k_apart[1];
  REFUSED(attn_append(stream, NULL, &bad), ATTN_STATUS_INVALID_TENSOR, "k pool shares memory with");
  bad = append;
  bad.k.data = pool[2][0];
  REFUSED(attn_append(stream, NULL, &bad), ATTN_STATUS_INVALID_TENSOR, "k pool shares memory with k");
  bad = append;
  bad.slots = (const int64_t *)(void *)pool;
  REFUSED(attn_append(stream, NULL, &bad), ATTN_STATUS_INVALID_TENSOR, "k pool shares memory with slots");
  bad.slots = (const int64_t *)(void *)((char *)words + 1);
  REFUSED(attn_append(stream, NULL, &bad), ATTN_STATUS_INVALID_ARGUMENT, "slots is at no multiple of 8");
  bad.slots = slots, bad.tokens = SIZE_MAX;
  REFUSED(attn_append(stream, NULL, &bad), ATTN_STATUS_INVALID_ARGUMENT, "memory has no room for so many");
  bad.tokens = SIZE_MAX / 8;
  REFUSED(attn_append(stream, NULL, &bad), ATTN_STATUS_INVALID_ARGUMENT, "memory has no room for so many");
}

static void merges(AttnStream *stream) {
  float *at = memory;
  AttnState states[3];
  for (int i = 0; i < 3; ++i, at += N * ROW + N * HEADS) {
    states[i].o = rows(at), states[i].lse = floats(at + N * ROW, N, HEADS, 0);
    for (int j = 0; j < N * ROW + N * HEADS; ++j) at[j] = random_number();
  }
  AttnState *a = &states[0], *b = &states[1], *out = &states[2], bad = *out;
  OK(attn_merge_state(stream, a, b, out));
  const AttnStatus refused = ATTN_STATUS_INVALID_TENSOR;
  bad.o = a->o;
  REFUSED_AND_UNCHANGED(attn_merge_state(stream, a, b, &bad), refused, "o shares memory with a.o");
  bad = *out, bad.lse = b->lse;
  REFUSED_AND_UNCHANGED(attn_merge_state(stream, a, b, &bad), refused, "lse shares memory with b.lse");
  bad = *out, bad.lse.data = out->o.data;
  REFUSED_AND_UNCHANGED(attn_merge_state(stream, a, b, &bad), refused, "o shares memory with lse");
  REFUSED_AND_UNCHANGED(attn_merge_state_in_place(stream, a, a, NULL), refused, "a.o shares memory with b.o");
  const uint8_t *mask = (const uint8_t *)a->o.data;
  REFUSED_AND_UNCHANGED(attn_merge_state_in_place(stream, a, b, mask), refused, "a.o shares memory with mask");
  OK(attn_merge_state_in_place(stream, a, b, NULL));
  AttnState both = {tensor(memory, ATTN_DTYPE_F32, 4, N, 2, HEADS, DIM), floats(memory + 6 * N * ROW, N, 2, HEADS)};
  bad = *out, bad.o = rows(memory + N * ROW);
  REFUSED_AND_UNCHANGED(attn_merge_states(stream, &both, &bad), refused, "o shares memory with states.o");
  const AttnState *odd = (const AttnState *)(const void *)((const char *)states + 1);
  const AttnStatus no_place = ATTN_STATUS_INVALID_ARGUMENT;
  REFUSED_AND_UNCHANGED(attn_merge_state(stream, odd, b, out), no_place, "state a is at no multiple");
}

int main(void) {
  AttnEngine *engine;
  AttnStream *stream;
  AttnAttention *attention;
  AttnPlan *plan;
  OK(attn_engine_cpu(&engine));
  OK(attn_stream_new(engine, &stream));
  AttnSpec spec;
  memset(&spec, 0, sizeof spec);
  spec.size = sizeof spec;
  spec.variant = "causal";
  spec.qo_heads = spec.kv_heads = HEADS, spec.head_dim = DIM;
  spec.qo_dtype = spec.kv_dtype = ATTN_DTYPE_F32;
  OK(attn_attention_new(engine, &spec, &attention));
  const int32_t indptr[] = {0, N};
  AttnBatch batch = ragged(indptr);
  OK(attn_plan_new(attention, &batch, NULL, &plan));
  for (size_t i = 0; i < sizeof memory / sizeof *memory; ++i) memory[i] = random_number();

  outputs(plan, stream);
  capacities(attention, stream);
  appends(stream);
  merges(stream);

  // counts of a batch that are none, and places that hold no such thing
  AttnPlan *none;
  batch.requests = SIZE_MAX;
  REFUSED(attn_plan_new(attention, &batch, NULL, &none), ATTN_STATUS_INVALID_ARGUMENT, "requests is");
  int32_t words[4] = {0};
  batch = ragged((const int32_t *)(void *)((char *)words + 1));
  const AttnStatus refused = ATTN_STATUS_INVALID_ARGUMENT;
  REFUSED(attn_plan_new(attention, &batch, NULL, &none), refused, "qo_indptr is at no multiple of 4");
  void *places[2];
  REFUSED(attn_engine_cpu((AttnEngine **)(void *)((char *)places + 1)), refused, "no multiple of");
  REFUSED(attn_engine_cpu(NULL), ATTN_STATUS_INVALID_ARGUMENT, "null");
  REFUSED(attn_plan_release_captured(NULL), ATTN_STATUS_INVALID_ARGUMENT, "the plan is null");
  REFUSED(attn_engine_release_captured(NULL), ATTN_STATUS_INVALID_ARGUMENT, "the engine is null");
  OK(attn_engine_release_captured(engine));

  attn_plan_free(plan);
  attn_attention_free(attention);
  attn_stream_free(stream);
  attn_engine_free(engine);
  attn_plan_free(NULL);
  puts("ok");
  return 0;
}
