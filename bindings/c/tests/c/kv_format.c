// Keys in `int8` and values in `int4(group=32)`: rows are appended to pools of bytes and attended to on the CPU, beside
// a plain computation over rows that are rounded alike; then calls that must fail.
#include <math.h>

#include "check.h"

enum { TOKENS = 9, QO_HEADS = 4, KV_HEADS = 2, DIM = 32, PAGE = 4, PAGES = 4, SCALE = 4 };

static float q[QO_HEADS][DIM], o[QO_HEADS][DIM], k[TOKENS][KV_HEADS][DIM], v[TOKENS][KV_HEADS][DIM];
static uint8_t k_pool[PAGES][PAGE][KV_HEADS][DIM], k_side[PAGES][PAGE][KV_HEADS][SCALE];
static uint8_t v_pool[PAGES][PAGE][KV_HEADS][DIM / 2], v_side[PAGES][PAGE][KV_HEADS][SCALE];

static const int32_t qo_indptr[] = {0, 1}, page_indptr[] = {0, 3}, page_indices[] = {2, 0, 3}, last_page_len[] = {1};
static const int64_t slots[TOKENS] = {8, 9, 10, 11, 0, 1, 2, 3, 12};

static AttnTensor bytes(void *data, int64_t row) { return tensor(data, ATTN_DTYPE_U8, 4, PAGES, PAGE, KV_HEADS, row); }

static AttnTensor floats(void *data, int64_t tokens, int64_t heads) {
  return tensor(data, ATTN_DTYPE_F32, 3, tokens, heads, DIM, 0);
}

// A row as codes of `levels` to both sides hold it; `digits` of the scale's mantissa are kept.
static void round_row(float row[DIM], int levels, int digits) {
  float most = 0;
  for (int d = 0; d < DIM; ++d) most = fmaxf(most, fabsf(row[d]));
  int exponent;
  float mantissa = frexpf(most / (float)levels, &exponent);
  float scale = ldexpf(rintf(ldexpf(mantissa, digits)), exponent - digits);
  for (int d = 0; d < DIM; ++d) row[d] = fminf(fmaxf(rintf(row[d] / scale), -(float)levels - 1), (float)levels) * scale;
}

// The largest difference from a computation in double.
static double difference(void) {
  double worst = 0;
  for (int t = 0; t < TOKENS; ++t)
    for (int h = 0; h < KV_HEADS; ++h) {
      round_row(k[t][h], 127, 24);
      round_row(v[t][h], 7, 11);
    }
  for (int h = 0; h < QO_HEADS; ++h) {
    double weights[TOKENS], sum = 0;
    for (int t = 0; t < TOKENS; ++t) {
      double logit = 0;
      for (int d = 0; d < DIM; ++d) logit += (double)q[h][d] * k[t][h / 2][d];
      sum += weights[t] = exp(logit / sqrt((double)DIM));
    }
    for (int d = 0; d < DIM; ++d) {
      double want = 0;
      for (int t = 0; t < TOKENS; ++t) want += weights[t] / sum * v[t][h / 2][d];
      worst = fmax(worst, fabs(want - o[h][d]));
    }
  }
  return worst;
}

int main(void) {
  for (int h = 0; h < QO_HEADS; ++h)
    for (int d = 0; d < DIM; ++d) q[h][d] = random_number();
  for (int t = 0; t < TOKENS; ++t)
    for (int h = 0; h < KV_HEADS; ++h)
      for (int d = 0; d < DIM; ++d) k[t][h][d] = random_number(), v[t][h][d] = random_number();
  memset(k_pool, 0xff, sizeof k_pool);
  memset(v_pool, 0xff, sizeof v_pool);
  memset(k_side, 0xff, sizeof k_side);
  memset(v_side, 0xff, sizeof v_side);

  AttnEngine *engine = NULL;
  AttnStream *stream = NULL;
  OK(attn_engine_cpu(&engine));
  OK(attn_stream_new(engine, &stream));
  AttnSpec spec;
  memset(&spec, 0, sizeof spec);
  spec.size = sizeof spec;
  spec.variant = "full";
  spec.qo_heads = QO_HEADS;
  spec.kv_heads = KV_HEADS;
  spec.head_dim = DIM;
  spec.qo_dtype = ATTN_DTYPE_F32;
  spec.kv_dtype = ATTN_DTYPE_U8;
  AttnAttention *attention = NULL;
  REFUSED(attn_attention_new(engine, &spec, &attention), ATTN_STATUS_UNSUPPORTED, "format");
  spec.kv_format = "int9";
  REFUSED(attn_attention_new(engine, &spec, &attention), ATTN_STATUS_INVALID_VARIANT, "int8");
  AttnSpec compute = spec;
  compute.kv_format = NULL;
  compute.qo_dtype = ATTN_DTYPE_BF16;
  compute.kv_dtype = ATTN_DTYPE_E4M3;
  compute.head_dim = 64;
  compute.compute_type = ATTN_COMPUTE_TYPE_E4M3;
  REFUSED(attn_attention_new(engine, &compute, &attention), ATTN_STATUS_UNSUPPORTED, "head_dim of 128");
  compute.head_dim = 128;
  OK(attn_attention_new(engine, &compute, &attention));
  attn_attention_free(attention);
  compute.compute_type = 7;
  REFUSED(attn_attention_new(engine, &compute, &attention), ATTN_STATUS_INVALID_ARGUMENT, "AttnSpec.compute_type");
  spec.kv_format = "int8 / int4(group=32)";
  OK(attn_attention_new(engine, &spec, &attention));

  AttnAppend append;
  memset(&append, 0, sizeof append);
  append.size = sizeof append;
  append.k = floats(k, TOKENS, KV_HEADS);
  append.v = floats(v, TOKENS, KV_HEADS);
  append.k_pool = bytes(k_pool, DIM);
  append.v_pool = bytes(v_pool, DIM / 2);
  append.slots = slots;
  append.tokens = TOKENS;
  REFUSED(attn_append(stream, attention, &append), ATTN_STATUS_INVALID_TENSOR, "side");
  append.k_side = bytes(k_side, SCALE);
  append.v_side = bytes(v_side, SCALE);
  OK(attn_append(stream, attention, &append));

  AttnBatch batch =
      paged_batch(1, qo_indptr, PAGE, PAGES, page_indptr, page_indices, last_page_len);
  AttnPlan *plan = NULL;
  OK(attn_plan_new(attention, &batch, NULL, &plan));
  AttnRun run;
  memset(&run, 0, sizeof run);
  run.size = sizeof run;
  run.q = floats(q, 1, QO_HEADS);
  run.k = append.k_pool;
  run.v = append.v_pool;
  run.k_side = append.k_side;
  run.v_side = append.v_side;
  run.o = floats(o, 1, QO_HEADS);
  OK(attn_plan_run(plan, stream, &run));
  OK(attn_stream_synchronize(stream));
  REQUIRE(difference() < 1e-5);

  run.v_side = bytes(v_side, SCALE / 2);
  REFUSED(attn_plan_run(plan, stream, &run), ATTN_STATUS_INVALID_TENSOR, "v side");
  attn_plan_free(plan);
  attn_attention_free(attention);
  attn_stream_free(stream);
  attn_engine_free(engine);
  puts("ok");
  return 0;
}
