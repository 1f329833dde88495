// A paged decode step on the CPU through the C interface, beside a plain computation; then calls that must fail.
// It is compiled as C11 and as C++17.
#include <math.h>

#include "check.h"

enum { REQUESTS = 3, QO_HEADS = 4, KV_HEADS = 2, DIM = 16, PAGE = 4, PAGES = 9, WINDOW = 7 };

static float q[REQUESTS][QO_HEADS][DIM], o[REQUESTS][QO_HEADS][DIM], lse[REQUESTS][QO_HEADS];
// pools whose pages are apart: another layer lies between them
static float k[PAGES][2][PAGE][KV_HEADS][DIM], v[PAGES][2][PAGE][KV_HEADS][DIM];

static const int32_t qo_indptr[] = {0, 1, 2, 3};
static int32_t page_indptr[] = {0, 2, 3, 6};
static int32_t page_indices[] = {7, 2, 5, 0, 8, 3};
static int32_t last_page_len[] = {3, 1, 4};
static int32_t kv_lens[] = {7, 1, 12};

static AttnTensor floats(void *data, int64_t a, int64_t b, int64_t c) {
  return tensor(data, ATTN_DTYPE_F32, c != 0 ? 3 : 2, a, b, c, 0);
}

static AttnTensor pool(void *data) {
  AttnTensor t = tensor(data, ATTN_DTYPE_F32, 4, PAGES, PAGE, KV_HEADS, DIM);
  t.strides[0] = 2 * PAGE * KV_HEADS * DIM;
  t.strides[1] = KV_HEADS * DIM;
  t.strides[2] = DIM;
  t.strides[3] = 1;
  return t;
}

// The largest difference from a computation in double, of outputs and of log-sum-exps.
static double difference(void) {
  double worst = 0;
  for (int r = 0; r < REQUESTS; ++r) {
    for (int h = 0; h < QO_HEADS; ++h) {
      double weights[64], sum = 0, most = -1e300;
      int first = kv_lens[r] > WINDOW ? kv_lens[r] - WINDOW : 0;
      for (int key = first; key < kv_lens[r]; ++key) {
        int page = page_indices[page_indptr[r] + key / PAGE];
        double logit = 0;
        for (int d = 0; d < DIM; ++d) logit += (double)q[r][h][d] * k[page][0][key % PAGE][h / 2][d];
        weights[key] = logit / sqrt((double)DIM);
        if (weights[key] > most) most = weights[key];
      }
      for (int key = first; key < kv_lens[r]; ++key) sum += weights[key] = exp(weights[key] - most);
      for (int d = 0; d < DIM; ++d) {
        double want = 0;
        for (int key = first; key < kv_lens[r]; ++key) {
          int page = page_indices[page_indptr[r] + key / PAGE];
          want += weights[key] / sum * v[page][0][key % PAGE][h / 2][d];
        }
        worst = fmax(worst, fabs(want - o[r][h][d]));
      }
      worst = fmax(worst, fabs(most + log(sum) - lse[r][h]));
    }
  }
  return worst;
}

static AttnSpec spec_of(const char *variant) {
  AttnSpec spec;
  memset(&spec, 0, sizeof spec);
  spec.size = sizeof spec;
  spec.variant = variant;
  spec.qo_heads = QO_HEADS;
  spec.kv_heads = KV_HEADS;
  spec.head_dim = DIM;
  spec.qo_dtype = spec.kv_dtype = ATTN_DTYPE_F32;
  return spec;
}

static void write_file(const char *path, const char *text) {
  FILE *file = fopen(path, "w");
  REQUIRE(file != NULL && fputs(text, file) >= 0 && fclose(file) == 0);
}

#define ABOUT "{\"about\": {\"arch\": \"sm_90\"}}\n"
#define ROW                                                                                         \
  "{\"kernel\": \"decode\", \"rows\": 8, \"kv\": \"16-bit\", \"head_dim\": 128, \"hooks\": \"none\", "  \
  "\"ctas_per_sm\": 2, \"launch\": 5000, \"item\": 900, \"block\": 2100, \"first\": 0, "                \
  "\"merge_launch\": 900, \"merge\": 140}\n"

// Costs of a GPU: the CPU has no use for them, and refuses the same files. The file is beside the program.
static void load_costs(AttnEngine *engine, const char *program) {
  char path[4096];
  REQUIRE(snprintf(path, sizeof path, "%s.jsonl", program) < (int)sizeof path);
  write_file(path, ABOUT ROW);
  OK(attn_engine_load_costs(engine, path));
  write_file(path, ABOUT ROW ROW);
  REFUSED(attn_engine_load_costs(engine, path), ATTN_STATUS_INVALID_ARGUMENT,
          "line 3: line 2 has costs of the same kernel");
  REQUIRE(remove(path) == 0);
  REFUSED(attn_engine_load_costs(engine, path), ATTN_STATUS_INVALID_ARGUMENT, "attn calibrate");
  REFUSED(attn_engine_load_costs(engine, NULL), ATTN_STATUS_INVALID_ARGUMENT, "path is null");
  REFUSED(attn_engine_load_costs(NULL, path), ATTN_STATUS_INVALID_ARGUMENT, "the engine is null");
}

int main(int argc, char **argv) {
  REQUIRE(attn_abi_version() == ATTN_ABI_VERSION);
  float *all[] = {&q[0][0][0], &k[0][0][0][0][0], &v[0][0][0][0][0]};
  size_t counts[] = {sizeof q / 4, sizeof k / 4, sizeof v / 4};
  for (int i = 0; i < 3; ++i)
    for (size_t j = 0; j < counts[i]; ++j) all[i][j] = random_number();

  int known = 0;
  for (size_t i = 0; i < attn_variant_count(); ++i) {
    REQUIRE(attn_variant_doc(i) != NULL && strlen(attn_variant_doc(i)) > 10);
    known += strcmp(attn_variant_name(i), "sliding_window") == 0;
  }
  REQUIRE(known == 1 && attn_variant_name(attn_variant_count()) == NULL);

  AttnEngine *engine = NULL;
  AttnStream *stream = NULL;
  AttnAttention *attention = NULL;
  AttnPlan *plan = NULL;
  REQUIRE(attn_engine_cpu(&engine) == ATTN_STATUS_OK && attn_engine_is_cpu(engine));
  REQUIRE(attn_stream_new(engine, &stream) == ATTN_STATUS_OK);
  AttnSpec spec = spec_of("causal + sliding_window(window=7)");
  REQUIRE(attn_attention_new(engine, &spec, &attention) == ATTN_STATUS_OK);

  AttnBatch batch =
      paged_batch(REQUESTS, qo_indptr, PAGE, PAGES, page_indptr, page_indices, last_page_len);
  AttnCapacity capacity;
  memset(&capacity, 0, sizeof capacity);
  capacity.size = sizeof capacity;
  capacity.requests = capacity.qo_tokens = REQUESTS;
  capacity.kv_tokens = PAGES * PAGE;
  capacity.page_size = PAGE;
  capacity.num_pages = PAGES;
  REQUIRE(attn_plan_new(attention, &batch, &capacity, &plan) == ATTN_STATUS_OK);

  AttnRun run;
  memset(&run, 0, sizeof run);
  run.size = sizeof run;
  run.q = floats(q, REQUESTS, QO_HEADS, DIM);
  run.k = pool(k);
  run.v = pool(v);
  run.o = floats(o, REQUESTS, QO_HEADS, DIM);
  run.lse = floats(lse, REQUESTS, QO_HEADS, 0);
  REQUIRE(attn_plan_run(plan, stream, &run) == ATTN_STATUS_OK);
  REQUIRE(attn_stream_synchronize(stream) == ATTN_STATUS_OK);
  REQUIRE(difference() < 1e-5);

  // other pages, in place
  page_indices[0] = 1;
  page_indices[5] = 4;
  REQUIRE(attn_plan_update(plan, stream, &batch) == ATTN_STATUS_OK);
  REQUIRE(attn_plan_run(plan, stream, &run) == ATTN_STATUS_OK);
  REQUIRE(difference() < 1e-5);

  // a token is appended to the last page of the first request, where page 2 has a slot left
  static float new_k[1][KV_HEADS][DIM], new_v[1][KV_HEADS][DIM];
  for (int h = 0; h < KV_HEADS; ++h)
    for (int d = 0; d < DIM; ++d) new_k[0][h][d] = random_number(), new_v[0][h][d] = random_number();
  int64_t slot = 2 * PAGE + 3;
  AttnAppend append;
  memset(&append, 0, sizeof append);
  append.size = sizeof append;
  append.k = floats(new_k, 1, KV_HEADS, DIM);
  append.v = floats(new_v, 1, KV_HEADS, DIM);
  append.k_pool = pool(k);
  append.v_pool = pool(v);
  append.slots = &slot;
  append.tokens = 1;
  REQUIRE(attn_append(stream, NULL, &append) == ATTN_STATUS_OK);
  REQUIRE(memcmp(k[2][0][3], new_k, sizeof new_k) == 0 && memcmp(v[2][0][3], new_v, sizeof new_v) == 0);
  last_page_len[0] = 4;
  kv_lens[0] = 8;
  REQUIRE(attn_plan_update(plan, stream, &batch) == ATTN_STATUS_OK);
  REQUIRE(attn_plan_run(plan, stream, &run) == ATTN_STATUS_OK);
  REQUIRE(difference() < 1e-5);
  slot = PAGES * PAGE;
  REFUSED(attn_append(stream, NULL, &append), ATTN_STATUS_INVALID_TENSOR, "");
  REFUSED(attn_append(NULL, NULL, &append), ATTN_STATUS_INVALID_ARGUMENT, "the stream is null");

  REQUIRE(argc > 0);
  load_costs(engine, argv[0]);

  // what fails says why, and writes nothing
  float before = o[0][0][0];
  AttnAttention *none = attention;
  REFUSED(attn_attention_new(engine, &spec, NULL), ATTN_STATUS_INVALID_ARGUMENT, "null");
  REFUSED(attn_attention_new(NULL, &spec, &none), ATTN_STATUS_INVALID_ARGUMENT, "the engine is null");
  REQUIRE(none == NULL);
  AttnSpec bad = spec_of("causal + sliding_windw(window=7)");
  REFUSED(attn_attention_new(engine, &bad, &none), ATTN_STATUS_INVALID_VARIANT, "sliding_window");
  bad = spec_of(NULL);
  REFUSED(attn_attention_new(engine, &bad, &none), ATTN_STATUS_INVALID_ARGUMENT, "AttnSpec.variant is null");
  bad = spec_of("causal\xff");
  REFUSED(attn_attention_new(engine, &bad, &none), ATTN_STATUS_INVALID_ARGUMENT, "UTF-8");
  bad = spec_of("causal");
  bad.kv_heads = 3;
  REFUSED(attn_attention_new(engine, &bad, &none), ATTN_STATUS_UNSUPPORTED, "3");
  bad = spec_of("causal");
  bad.qo_dtype = 17;
  REFUSED(attn_attention_new(engine, &bad, &none), ATTN_STATUS_INVALID_ARGUMENT, "AttnSpec.qo_dtype is 17");
  bad = spec_of("causal");
  bad.size = 8;
  REFUSED(attn_attention_new(engine, &bad, &none), ATTN_STATUS_INVALID_ARGUMENT, "sizeof");
  // a newer struct, whose further fields are zero, and one that uses them
  struct {
    AttnSpec spec;
    uint64_t further;
  } newer = {spec_of("causal"), 0};
  newer.spec.size = sizeof newer;
  REQUIRE(attn_attention_new(engine, &newer.spec, &none) == ATTN_STATUS_OK);
  attn_attention_free(none);
  newer.further = 1;
  REFUSED(attn_attention_new(engine, &newer.spec, &none), ATTN_STATUS_INVALID_ARGUMENT, "this version");

  page_indices[1] = PAGES;
  REFUSED(attn_plan_update(plan, stream, &batch), ATTN_STATUS_INVALID_BATCH, "9");
  page_indices[1] = 2;
  page_indptr[3] = -1;
  REFUSED(attn_plan_update(plan, stream, &batch), ATTN_STATUS_INVALID_BATCH, "");
  page_indptr[3] = 6;
  batch.last_page_len = NULL;
  REFUSED(attn_plan_update(plan, stream, &batch), ATTN_STATUS_INVALID_ARGUMENT, "last_page_len is null");
  batch.last_page_len = last_page_len;
  run.q.dtype = ATTN_DTYPE_F16;
  REFUSED(attn_plan_run(plan, stream, &run), ATTN_STATUS_INVALID_TENSOR, "f16");
  run.q.dtype = ATTN_DTYPE_F32;
  run.o.data = NULL;
  REFUSED(attn_plan_run(plan, stream, &run), ATTN_STATUS_INVALID_ARGUMENT, "o.data is null");
  run.o.data = o;
  run.o.shape[0] = REQUESTS - 1;
  REFUSED(attn_plan_run(plan, stream, &run), ATTN_STATUS_INVALID_TENSOR, "");
  run.o.shape[0] = REQUESTS;
  run.k.strides[0] = -1;
  REFUSED(attn_plan_run(plan, stream, &run), ATTN_STATUS_INVALID_ARGUMENT, "not negative");
  run.k.strides[0] = INT64_MAX / 2;
  REFUSED(attn_plan_run(plan, stream, &run), ATTN_STATUS_INVALID_TENSOR, "");
  run.k = pool(k);
  run.kv_layout = 9;
  REFUSED(attn_plan_run(plan, stream, &run), ATTN_STATUS_INVALID_ARGUMENT, "kv_layout is 9");
  run.kv_layout = ATTN_KV_LAYOUT_NHD;
  REFUSED(attn_plan_run(NULL, stream, &run), ATTN_STATUS_INVALID_ARGUMENT, "the plan is null");
  REQUIRE(o[0][0][0] == before);
  AttnStream *borrowed = NULL;
  REFUSED(attn_stream_from_raw(engine, NULL, &borrowed), ATTN_STATUS_INVALID_ARGUMENT, "CPU");
  REQUIRE(attn_plan_run(plan, stream, &run) == ATTN_STATUS_OK && difference() < 1e-5);

  // what a handle was made of may go first
  attn_engine_free(engine);
  attn_attention_free(attention);
  REQUIRE(attn_plan_run(plan, stream, &run) == ATTN_STATUS_OK);
  attn_stream_free(stream);
  attn_plan_free(plan);
  attn_plan_free(NULL);
  puts("ok");
  return 0;
}
