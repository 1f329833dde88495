// Decode whose keys are on two ranks, each a thread, beside one run over all keys; then calls that must fail. C11 and
// C++17.
#include <math.h>
#include <pthread.h>

#include "check.h"

enum { RANKS = 2, QO_HEADS = 4, KV_HEADS = 2, DIM = 8, KEYS = 9 };

static float q[QO_HEADS * DIM], k[KEYS * KV_HEADS * DIM], v[KEYS * KV_HEADS * DIM];

// One query over `keys` keys from `first` on, by a group or alone, into `o` and `lse`.
static void run_keys(const AttnCommunicator *communicator, int first, int keys, float *o, float *lse) {
  AttnEngine *engine;
  AttnStream *stream;
  AttnAttention *attention;
  AttnPlan *plan;
  AttnSpec spec;
  AttnBatch batch;
  AttnRun run;
  const int32_t qo_indptr[] = {0, 1}, kv_indptr[] = {0, keys};
  OK(attn_engine_cpu(&engine));
  OK(attn_stream_new(engine, &stream));
  memset(&spec, 0, sizeof spec);
  spec.size = sizeof spec, spec.variant = "sink(logits=[0.5, -1, 2, 0])";
  spec.qo_heads = QO_HEADS, spec.kv_heads = KV_HEADS, spec.head_dim = DIM;
  spec.qo_dtype = spec.kv_dtype = ATTN_DTYPE_F32;
  OK(attn_attention_new(engine, &spec, &attention));
  memset(&batch, 0, sizeof batch);
  batch.size = sizeof batch, batch.requests = 1, batch.kind = ATTN_BATCH_KIND_RAGGED;
  batch.qo_indptr = qo_indptr, batch.kv_indptr = kv_indptr;
  OK(attn_plan_new(attention, &batch, NULL, &plan));
  memset(&run, 0, sizeof run);
  run.size = sizeof run;
  run.q = tensor(q, ATTN_DTYPE_F32, 3, 1, QO_HEADS, DIM, 0);
  run.k = tensor(k + first * KV_HEADS * DIM, ATTN_DTYPE_F32, 3, keys, KV_HEADS, DIM, 0);
  run.v = tensor(v + first * KV_HEADS * DIM, ATTN_DTYPE_F32, 3, keys, KV_HEADS, DIM, 0);
  run.o = tensor(o, ATTN_DTYPE_F32, 3, 1, QO_HEADS, DIM, 0);
  run.lse = tensor(lse, ATTN_DTYPE_F32, 2, 1, QO_HEADS, 0, 0);
  if (communicator == NULL) {
    OK(attn_plan_run(plan, stream, &run));
  } else {
    AttnDecodeContextParallel *parallel;
    OK(attn_decode_context_parallel_new(attention, communicator, 1, false, &parallel));
    OK(attn_decode_context_parallel_run(parallel, plan, stream, &run));
    OK(attn_communicator_wait(communicator, stream));
    attn_decode_context_parallel_free(parallel);
  }
  attn_plan_free(plan);
  attn_attention_free(attention);
  attn_stream_free(stream);
  attn_engine_free(engine);
}

static AttnCommunicator *ranks[RANKS];
static float outputs[RANKS][QO_HEADS * DIM], lses[RANKS][QO_HEADS];

static void *run_rank(void *at) {
  // rank 0 has five keys, rank 1 the others
  const int rank = *(const int *)at, first = rank == 0 ? 0 : 5, keys = rank == 0 ? 5 : KEYS - 5;
  run_keys(ranks[rank], first, keys, outputs[rank], lses[rank]);
  return NULL;
}

static void run_refused(void) {
  const AttnStatus argument = ATTN_STATUS_INVALID_ARGUMENT;
  AttnCommunicator *made;
  AttnDecodeContextParallel *parallel;
  AttnEngine *engine;
  uint8_t id[ATTN_GROUP_ID_BYTES] = {0};
  int comm = 0;
  OK(attn_engine_cpu(&engine));
  REFUSED(attn_communicator_new_id(NULL), argument, "id is null");
  REFUSED(attn_communicator_join(NULL, id, 0, 1, 1, &made), argument, "the engine is null");
  REFUSED(attn_communicator_join(engine, NULL, 0, 1, 1, &made), argument, "id is null");
  REFUSED(attn_communicator_join(engine, id, 2, 2, 1, &made), argument, "rank is 2 of 2");
  REFUSED(attn_communicator_join(engine, id, 0, 1, 1, &made), argument, "communicator");
  REFUSED(attn_communicator_from_raw(engine, NULL, 1, &made), argument, "the ncclComm_t is null");
  REFUSED(attn_communicator_from_raw(engine, &comm, 1, &made), argument, "communicator");
  REFUSED(attn_communicator_threads(1, -1, &made), argument, "limit is -1 s");
  REFUSED(attn_communicator_threads(1, 1, NULL), argument, "out is null");
  REFUSED(attn_decode_context_parallel_new(NULL, ranks[0], 1, false, &parallel), argument, "the attention is null");
  REFUSED(attn_communicator_abort(ranks[0], NULL), argument, "why is null");
  REFUSED(attn_communicator_wait(NULL, NULL), argument, "the communicator is null");
  REFUSED(attn_decode_context_parallel_run(NULL, NULL, NULL, NULL), argument, "the parallel is null");
  attn_engine_free(engine);
}

int main(void) {
  float o[QO_HEADS * DIM], lse[QO_HEADS];
  pthread_t threads[RANKS];
  int numbers[RANKS];
  for (int i = 0; i < QO_HEADS * DIM; ++i) q[i] = random_number();
  for (int i = 0; i < KEYS * KV_HEADS * DIM; ++i) k[i] = random_number(), v[i] = random_number();
  run_keys(NULL, 0, KEYS, o, lse);
  OK(attn_communicator_threads(RANKS, 30, ranks));
  for (int rank = 0; rank < RANKS; ++rank) {
    numbers[rank] = rank;
    REQUIRE(pthread_create(&threads[rank], NULL, run_rank, &numbers[rank]) == 0);
  }
  for (int rank = 0; rank < RANKS; ++rank) {
    REQUIRE(pthread_join(threads[rank], NULL) == 0);
    for (int i = 0; i < QO_HEADS * DIM; ++i) REQUIRE(fabsf(outputs[rank][i] - o[i]) < 1e-5f);
    for (int i = 0; i < QO_HEADS; ++i) REQUIRE(fabsf(lses[rank][i] - lse[i]) < 1e-5f);
  }
  run_refused();
  OK(attn_communicator_abort(ranks[0], "out of memory"));
  for (int rank = 0; rank < RANKS; ++rank) attn_communicator_free(ranks[rank]);
  attn_communicator_free(NULL);
  attn_decode_context_parallel_free(NULL);
  puts("ok");
  return 0;
}
