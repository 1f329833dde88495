// A process that computed on the CPU forks: the child computes as well, and the same. C11 and C++17, POSIX.
#define _POSIX_C_SOURCE 200809L
#include <sys/wait.h>
#include <unistd.h>

#include "check.h"

enum { TOKENS = 300, HEADS = 4, DIM = 32, COUNT = TOKENS * HEADS * DIM };

static float rows[COUNT], before[COUNT], after[COUNT];

static AttnTensor floats(float *data) { return tensor(data, ATTN_DTYPE_F32, 3, TOKENS, HEADS, DIM, 0); }

static void run(const AttnAttention *attention, const AttnStream *stream, float *o) {
  const int32_t indptr[] = {0, TOKENS};
  AttnBatch batch;
  memset(&batch, 0, sizeof batch);
  batch.size = sizeof batch;
  batch.requests = 1, batch.qo_indptr = batch.kv_indptr = indptr;
  AttnPlan *plan = NULL;
  OK(attn_plan_new(attention, &batch, NULL, &plan));
  AttnRun run;
  memset(&run, 0, sizeof run);
  run.size = sizeof run;
  run.q = run.k = run.v = floats(rows), run.o = floats(o);
  OK(attn_plan_run(plan, stream, &run));
  attn_plan_free(plan);
}

int main(void) {
  AttnEngine *engine;
  AttnStream *stream;
  AttnAttention *attention;
  OK(attn_engine_cpu(&engine));
  OK(attn_stream_new(engine, &stream));
  AttnSpec spec;
  memset(&spec, 0, sizeof spec);
  spec.size = sizeof spec;
  spec.variant = "causal";
  spec.qo_heads = spec.kv_heads = HEADS, spec.head_dim = DIM;
  spec.qo_dtype = spec.kv_dtype = ATTN_DTYPE_F32;
  OK(attn_attention_new(engine, &spec, &attention));
  for (int i = 0; i < COUNT; ++i) rows[i] = random_number();
  run(attention, stream, before);
  pid_t child = fork();
  REQUIRE(child >= 0);
  if (child == 0) {
    alarm(60); // a child that waits for threads of its parent waits for ever
    run(attention, stream, after);
    _exit(memcmp(before, after, sizeof before) == 0 ? 0 : 1);
  }
  int status = 1;
  REQUIRE(waitpid(child, &status, 0) == child);
  REQUIRE(WIFEXITED(status) && WEXITSTATUS(status) == 0);
  attn_attention_free(attention);
  attn_stream_free(stream);
  attn_engine_free(engine);
  puts("ok");
  return 0;
}
