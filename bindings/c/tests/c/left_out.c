// What a call would leave out is refused: sizes of no version, fields without a meaning, values beside keys that hold
// them, rows of a whole tensor, value transforms that nothing applies. And what a parameter tensor is replaced by
// reaches appends too. C11 and C++17.
#include <math.h>

#include "check.h"

enum { TOKENS = 5, DIM = 8 };

static float rows[TOKENS * DIM], more[TOKENS * 2 * DIM], k_pool[TOKENS * DIM], v_pool[2 * TOKENS * DIM];
static float fused[2 * TOKENS * DIM], out[DIM];
static const int32_t qo_indptr[] = {0, 1}, page_indptr[] = {0, 1}, page_indices[] = {0}, last_page_len[] = {TOKENS};
static const int64_t slots[] = {0, 1, 2, 3, 4};
static const int32_t positions[] = {0, 1, 2, 3, 4};

static AttnTensor floats(void *data, int64_t tokens, int64_t dim) {
  return tensor(data, ATTN_DTYPE_F32, 3, tokens, 1, dim, 0);
}

static AttnTensor pool(void *data, int64_t dim) { return tensor(data, ATTN_DTYPE_F32, 4, 1, TOKENS, 1, dim); }

// A page of keys and values in one tensor.
static AttnTensor fused_pool(void) {
  AttnTensor t = tensor(fused, ATTN_DTYPE_F32, 5, 1, 2, TOKENS, 1);
  t.shape[4] = DIM;
  return t;
}

static AttnSpec spec_of(const char *variant, uint32_t stores_transformed) {
  AttnSpec spec;
  memset(&spec, 0, sizeof spec);
  spec.size = sizeof spec;
  spec.variant = variant;
  spec.qo_heads = spec.kv_heads = 1, spec.head_dim = DIM;
  spec.qo_dtype = spec.kv_dtype = ATTN_DTYPE_F32;
  spec.stores_transformed = stores_transformed;
  return spec;
}

static AttnAppend append_of(void) {
  AttnAppend append;
  memset(&append, 0, sizeof append);
  append.size = sizeof append;
  append.k = append.v = floats(rows, TOKENS, DIM);
  append.k_pool = pool(k_pool, DIM), append.v_pool = pool(v_pool, DIM);
  append.slots = slots, append.positions = positions, append.tokens = TOKENS;
  return append;
}

static AttnRun run_of(void) {
  AttnRun run;
  memset(&run, 0, sizeof run);
  run.size = sizeof run;
  run.q = floats(more, 1, DIM), run.o = floats(out, 1, DIM);
  run.k = pool(k_pool, DIM), run.v = pool(v_pool, DIM);
  return run;
}

static AttnPlan *plan_of(const AttnAttention *attention) {
  AttnBatch batch = paged_batch(1, qo_indptr, TOKENS, 1, page_indptr, page_indices, last_page_len);
  AttnPlan *plan = NULL;
  OK(attn_plan_new(attention, &batch, NULL, &plan));
  return plan;
}

// A size that no version of a struct has ends within a field.
static void sizes(AttnEngine *engine, AttnPlan *plan, AttnStream *stream) {
  AttnAttention *none = NULL;
  const AttnStatus refused = ATTN_STATUS_INVALID_ARGUMENT;
  for (size_t more_bytes = 1; more_bytes < sizeof(void *); ++more_bytes) {
    AttnSpec spec = spec_of("full", 0);
    spec.kv_format = "int8"; // a part of its address is none
    spec.size = offsetof(AttnSpec, kv_format) + more_bytes;
    REFUSED(attn_attention_new(engine, &spec, &none), refused, "AttnSpec.size is");
    AttnRun run = run_of();
    run.size = offsetof(AttnRun, k_side) + more_bytes;
    REFUSED(attn_plan_run(plan, stream, &run), refused, "a multiple of");
  }
  AttnRun run = run_of();
  run.size = offsetof(AttnRun, k_side);
  OK(attn_plan_run(plan, stream, &run));
}

// Fields without a meaning, and a capacity of an older version.
static void reserved(AttnAttention *attention, AttnStream *stream) {
  const AttnStatus refused = ATTN_STATUS_INVALID_ARGUMENT;
  AttnCapacity capacity;
  memset(&capacity, 0, sizeof capacity);
  capacity.size = sizeof capacity;
  capacity.requests = 1, capacity.qo_tokens = 1, capacity.kv_tokens = capacity.page_size = TOKENS;
  capacity.num_pages = 1;
  AttnBatch batch = paged_batch(1, qo_indptr, TOKENS, 1, page_indptr, page_indices, last_page_len);
  AttnPlan *plan = NULL;
  OK(attn_plan_new(attention, &batch, &capacity, &plan));
  attn_plan_free(plan);
  capacity.size = offsetof(AttnCapacity, qo_len) + 4;
  REFUSED(attn_plan_new(attention, &batch, &capacity, &plan), refused, "AttnCapacity.size is 36");
  capacity.size = offsetof(AttnCapacity, qo_len);
  OK(attn_plan_new(attention, &batch, &capacity, &plan));
  attn_plan_free(plan);
  AttnAppend append = append_of();
  append.reserved = 1;
  REFUSED(attn_append(stream, NULL, &append), refused, "AttnAppend.reserved is 1");
}

// Values beside keys that hold them.
static void values(AttnPlan *plan, AttnStream *stream) {
  const AttnStatus refused = ATTN_STATUS_INVALID_TENSOR;
  const uint32_t layouts[] = {ATTN_KV_LAYOUT_FUSED_NHD, ATTN_KV_LAYOUT_FUSED_HND, ATTN_KV_LAYOUT_LATENT};
  for (size_t i = 0; i < 3; ++i) {
    const int is_latent = layouts[i] == ATTN_KV_LAYOUT_LATENT;
    AttnAppend append = append_of();
    append.kv_layout = layouts[i];
    if (!is_latent) append.k_pool = fused_pool();
    if (layouts[i] == ATTN_KV_LAYOUT_FUSED_HND) append.k_pool.shape[2] = 1, append.k_pool.shape[3] = TOKENS;
    REFUSED(attn_append(stream, NULL, &append), refused, "v_pool is given");
    memset(&append.v_pool, 0, sizeof append.v_pool);
    append.v_side = pool(v_pool, DIM);
    if (!is_latent) REFUSED(attn_append(stream, NULL, &append), refused, "v_side is given");
    memset(&append.v_side, 0, sizeof append.v_side);
    if (is_latent) {
      REFUSED(attn_append(stream, NULL, &append), refused, "v is given");
      memset(&append.v, 0, sizeof append.v);
    }
    OK(attn_append(stream, NULL, &append));
    AttnRun run = run_of();
    run.kv_layout = layouts[i], run.k = append.k_pool;
    REFUSED(attn_plan_run(plan, stream, &run), refused, "v is given");
    memset(&run.v, 0, sizeof run.v);
    run.v_side = pool(v_pool, DIM);
    REFUSED(attn_plan_run(plan, stream, &run), refused, "v_side is given");
    memset(&run.v_side, 0, sizeof run.v_side);
    OK(attn_plan_run(plan, stream, &run));
  }
}

// Keys are stored after a norm whose weights were replaced, as a whole or by a row: as if they were stored before it.
static void tensors(AttnEngine *engine, AttnStream *stream) {
  float weights[DIM], seventh = 3, got[2][DIM];
  for (int i = 0; i < DIM; ++i) weights[i] = (float)(i + 1);
  const int32_t row = 7;
  for (uint32_t stores = 0; stores < 2; ++stores) {
    AttnSpec spec = spec_of("causal + qk_norm", stores);
    AttnAttention *attention = NULL;
    OK(attn_attention_new(engine, &spec, &attention));
    AttnContent content;
    memset(&content, 0, sizeof content);
    content.size = sizeof content;
    content.data = weights, content.count = DIM, content.element = ATTN_ELEMENT_F32;
    OK(attn_set_tensor(stream, attention, "k_weight", &content));
    content.indices = &row;
    REFUSED(attn_set_tensor(stream, attention, "k_weight", &content), ATTN_STATUS_INVALID_ARGUMENT, "_rows");
    content.rows = 1, content.data = &seventh, content.count = 1;
    OK(attn_set_tensor_rows(stream, attention, "k_weight", &content));
    content.reserved = 1;
    REFUSED(attn_set_tensor_rows(stream, attention, "k_weight", &content), ATTN_STATUS_INVALID_ARGUMENT, "reserved");

    AttnAppend append = append_of();
    OK(attn_append(stream, attention, &append));
    AttnPlan *plan = plan_of(attention);
    AttnRun run = run_of();
    OK(attn_plan_run(plan, stream, &run));
    memcpy(got[stores], out, sizeof out);
    attn_plan_free(plan);
    attn_attention_free(attention);
  }
  for (int i = 0; i < DIM; ++i) REQUIRE(fabsf(got[0][i] - got[1][i]) < 1e-5f);
}

// A transform of values takes those that it is bound to, and runs over values in a tensor of their own.
static void value_transforms(AttnEngine *engine, AttnStream *stream) {
  AttnSpec spec = spec_of("value_norm(weight=[1, 2, 3, 4, 5, 6, 7, 8])", 1);
  AttnAttention *attention = NULL;
  OK(attn_attention_new(engine, &spec, &attention));
  AttnAppend append = append_of();
  OK(attn_append(stream, attention, &append));
  for (int64_t dim = DIM / 2; dim <= 2 * DIM; dim *= 4) {
    append.v = floats(more, TOKENS, dim), append.v_pool = pool(v_pool, dim);
    REFUSED(attn_append(stream, attention, &append), ATTN_STATUS_INVALID_TENSOR, "this run needs 8");
  }
  attn_attention_free(attention);
  spec.values_in_keys = 1;
  REFUSED(attn_attention_new(engine, &spec, &attention), ATTN_STATUS_UNSUPPORTED, "`value_norm` transforms values");
  spec.stores_transformed = 0;
  OK(attn_attention_new(engine, &spec, &attention));
  attn_attention_free(attention);
}

int main(void) {
  AttnEngine *engine;
  AttnStream *stream;
  AttnAttention *attention;
  OK(attn_engine_cpu(&engine));
  OK(attn_stream_new(engine, &stream));
  for (int i = 0; i < TOKENS * DIM; ++i) rows[i] = random_number();
  for (int i = 0; i < TOKENS * 2 * DIM; ++i) more[i] = random_number();
  AttnSpec spec = spec_of("full", 0);
  OK(attn_attention_new(engine, &spec, &attention));
  AttnPlan *plan = plan_of(attention);
  sizes(engine, plan, stream);
  reserved(attention, stream);
  values(plan, stream);
  tensors(engine, stream);
  value_transforms(engine, stream);
  attn_plan_free(plan);
  attn_attention_free(attention);
  attn_stream_free(stream);
  attn_engine_free(engine);
  puts("ok");
  return 0;
}
