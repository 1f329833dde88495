// The same steps on the CPU and, where there is one, on a GPU: paged decode and prefill, appends, updates, layers, merged
// states. On the GPU also a step that the caller captures, and memory of the wrong kind. C11 and C++17.
#include "side.h"

enum { REQUESTS = 4 };

static const int FIRST[REQUESTS] = {0, 6, 12, 20}; // in the order of pages
static const int ONE_EACH[REQUESTS] = {1, 1, 1, 1};
static const int DECODED[REQUESTS] = {33, 16, 1, 120}, LONGER[REQUESTS] = {34, 17, 2, 121};
static const int PROMPTS[REQUESTS] = {37, 1, 16, 70}, PROMPT_KEYS[REQUESTS] = {50, 90, 16, 300};
// keys in two parts, of which the first ends with a page
static const int PART[REQUESTS] = {32, 16, 48, 64}, REST[REQUESTS] = {7, 30, 1, 100};
static const int REST_FIRST[REQUESTS] = {2, 7, 15, 24}, WHOLE[REQUESTS] = {39, 46, 49, 164};
static const char *VARIANT = "causal + soft_cap(cap=20)", *OTHER_LAYER = "causal + soft_cap(cap=3)";

static uint16_t queries[MOST_ROWS * ROW], keys[POOL], values[POOL], new_keys[REQUESTS * KV_HEADS * DIM];

// What a side computes, in bfloat16.
typedef struct {
  uint16_t decode[REQUESTS * ROW], appended[REQUESTS * ROW], layer[REQUESTS * ROW], merged[REQUESTS * ROW];
  uint16_t prefill[MOST_ROWS * ROW];
  float lse[REQUESTS * QO_HEADS];
} Outputs;

// The memory of a side.
typedef struct {
  void *q, *k, *v, *o, *lse, *states, *states_lse;
} Memory;

static AttnTensor rows(void *data, int count) {
  return tensor(data, ATTN_DTYPE_BF16, 3, count, QO_HEADS, DIM, 0);
}

static AttnTensor pool(void *data) {
  return tensor(data, ATTN_DTYPE_BF16, 4, PAGES, PAGE, KV_HEADS, DIM);
}

static AttnRun run_of(const Memory *at, void *o, int count) {
  AttnRun run;
  memset(&run, 0, sizeof run);
  run.size = sizeof run;
  run.q = rows(at->q, count);
  run.k = pool(at->k);
  run.v = pool(at->v);
  run.o = rows(o, count);
  return run;
}

// One of two states that lie next to each other in each row.
static AttnState state_of(const Memory *at, int number) {
  AttnState state;
  state.o = rows((uint16_t *)at->states + number * ROW, REQUESTS);
  state.o.strides[0] = 2 * ROW;
  state.o.strides[1] = DIM;
  state.o.strides[2] = 1;
  state.lse = tensor((float *)at->states_lse + number * QO_HEADS, ATTN_DTYPE_F32, 2, REQUESTS, QO_HEADS, 0, 0);
  state.lse.strides[0] = 2 * QO_HEADS;
  state.lse.strides[1] = 1;
  return state;
}

static AttnRun partial_of(const Memory *at, int number) {
  AttnRun run = run_of(at, at->o, REQUESTS);
  AttnState state = state_of(at, number);
  run.o = state.o;
  run.lse = state.lse;
  run.partial = 1;
  return run;
}

// Appends a token to each request of `DECODED`.
static void append(Side *side, const Memory *at) {
  int64_t slots[REQUESTS];
  for (int i = 0; i < REQUESTS; ++i)
    slots[i] = (FIRST[i] + DECODED[i] / PAGE) * 7 % PAGES * PAGE + DECODED[i] % PAGE;
  AttnAppend append;
  memset(&append, 0, sizeof append);
  append.size = sizeof append;
  append.k = append.v =
      tensor(put(side, new_keys, sizeof new_keys), ATTN_DTYPE_BF16, 3, REQUESTS, KV_HEADS, DIM, 0);
  append.k_pool = pool(at->k);
  append.v_pool = pool(at->v);
  append.tokens = REQUESTS;
  append.slots = (const int64_t *)put(side, slots, sizeof slots);
  OK(attn_append(side->stream, NULL, &append));
  if (side->is_gpu) {
    append.slots = slots;
    REFUSED(attn_append(side->stream, NULL, &append), ATTN_STATUS_INVALID_TENSOR, "AttnAppend.slots is at");
  }
}

static void run_decode(Side *side, const Memory *at, Outputs *to) {
  Requests requests;
  requests_of(&requests, REQUESTS, ONE_EACH, DECODED, FIRST);
  AttnAttention *attention = attention_of(side, VARIANT), *layer = NULL;
  AttnPlan *plan = plan_of(attention, &requests, REQUESTS);
  AttnRun run = run_of(at, at->o, REQUESTS);
  run.lse = tensor(at->lse, ATTN_DTYPE_F32, 2, REQUESTS, QO_HEADS, 0, 0);
  OK(attn_plan_run(plan, side->stream, &run));
  get(side, to->decode, at->o, sizeof to->decode);
  get(side, to->lse, at->lse, sizeof to->lse);

  append(side, at);
  requests_of(&requests, REQUESTS, ONE_EACH, LONGER, FIRST);
  OK(attn_plan_update(plan, side->stream, &requests.batch));
  OK(attn_plan_run(plan, side->stream, &run));
  get(side, to->appended, at->o, sizeof to->appended);
  REQUIRE(apart(to->decode, to->appended, REQUESTS * ROW) > 0.01);

  // a layer with other parameters has the result of an attention of its own
  OK(attn_attention_with_parameters(attention, OTHER_LAYER, 0.5f, &layer));
  run.layer = layer;
  OK(attn_plan_run(plan, side->stream, &run));
  get(side, to->layer, at->o, sizeof to->layer);
  AttnAttention *own = attention_of(side, OTHER_LAYER), *scaled = NULL;
  run.layer = own;
  REFUSED(attn_plan_run(plan, side->stream, &run), ATTN_STATUS_UNSUPPORTED, "with_parameters");
  OK(attn_attention_with_parameters(own, OTHER_LAYER, 0.5f, &scaled));
  AttnPlan *plan_of_own = plan_of(scaled, &requests, 0);
  run.layer = NULL;
  OK(attn_plan_run(plan_of_own, side->stream, &run));
  uint16_t again[REQUESTS * ROW];
  get(side, again, at->o, sizeof again);
  REQUIRE(apart(to->layer, again, REQUESTS * ROW) < 0.01 && apart(to->layer, to->appended, REQUESTS * ROW) > 0.01);
  REFUSED(attn_attention_with_parameters(own, "causal", 0, &layer), ATTN_STATUS_UNSUPPORTED, "");
  REQUIRE(layer == NULL);

  // beyond the capacity, and without one
  requests.batch.requests = 0;
  requests.qo_indptr[0] = 1;
  REFUSED(attn_plan_update(plan, side->stream, &requests.batch), ATTN_STATUS_INVALID_BATCH, "");
  requests_of(&requests, REQUESTS, PROMPTS, PROMPT_KEYS, FIRST);
  REFUSED(attn_plan_update(plan, side->stream, &requests.batch), ATTN_STATUS_INVALID_BATCH, "70");
  REFUSED(attn_plan_update(plan_of_own, side->stream, &requests.batch), ATTN_STATUS_INVALID_BATCH, "capacity");
  attn_attention_free(own);
  attn_attention_free(scaled);
  attn_attention_free(attention);
  attn_plan_free(plan_of_own);
  attn_plan_free(plan);
}

static void run_prefill(Side *side, const Memory *at, Outputs *to) {
  Requests requests;
  requests_of(&requests, REQUESTS, PROMPTS, PROMPT_KEYS, FIRST);
  int count = requests.qo_indptr[REQUESTS];
  AttnAttention *attention = attention_of(side, "causal + sliding_window(window=40)");
  AttnPlan *plan = plan_of(attention, &requests, 0);
  void *o = put(side, NULL, sizeof to->prefill);
  AttnRun run = run_of(at, o, count);
  OK(attn_plan_run(plan, side->stream, &run));
  get(side, to->prefill, o, sizeof to->prefill);
  attn_attention_free(attention);
  attn_plan_free(plan);
}

static void run_merge(Side *side, const Memory *at, Outputs *to) {
  Requests part, rest, whole;
  requests_of(&part, REQUESTS, ONE_EACH, PART, FIRST);
  requests_of(&rest, REQUESTS, ONE_EACH, REST, REST_FIRST);
  requests_of(&whole, REQUESTS, ONE_EACH, WHOLE, FIRST);
  AttnAttention *attention = attention_of(side, VARIANT);
  const Requests *each[3] = {&part, &rest, &whole};
  AttnPlan *plans[3];
  AttnRun runs[3] = {partial_of(at, 0), partial_of(at, 1), run_of(at, at->o, REQUESTS)};
  for (int i = 0; i < 3; ++i) {
    plans[i] = plan_of(attention, each[i], 0);
    OK(attn_plan_run(plans[i], side->stream, &runs[i]));
  }
  uint16_t want[REQUESTS * ROW], got[REQUESTS * ROW];
  get(side, want, at->o, sizeof want);

  AttnState a = state_of(at, 0), b = state_of(at, 1), out, both = a, copy = a;
  out.o = rows(at->o, REQUESTS);
  out.lse = tensor(at->lse, ATTN_DTYPE_F32, 2, REQUESTS, QO_HEADS, 0, 0);
  OK(attn_merge_state(side->stream, &a, &b, &out));
  get(side, to->merged, at->o, sizeof to->merged);
  REQUIRE(apart(to->merged, want, REQUESTS * ROW) < 0.02);
  both.o = tensor(at->states, ATTN_DTYPE_BF16, 4, REQUESTS, 2, QO_HEADS, DIM);
  both.lse = tensor(at->states_lse, ATTN_DTYPE_F32, 3, REQUESTS, 2, QO_HEADS, 0);
  out.lse.data = NULL;
  OK(attn_merge_states(side->stream, &both, &out));
  get(side, got, at->o, sizeof got);
  REQUIRE(apart(got, to->merged, REQUESTS * ROW) < 0.02);

  // in place: all tokens but the second
  static const uint8_t mask[REQUESTS] = {1, 0, 1, 1};
  uint16_t before[2 * REQUESTS * ROW], after[2 * REQUESTS * ROW];
  float lse_before[2 * REQUESTS * QO_HEADS];
  get(side, before, at->states, sizeof before);
  get(side, lse_before, at->states_lse, sizeof lse_before);
  Memory other = *at;
  other.states = put(side, before, sizeof before);
  other.states_lse = put(side, lse_before, sizeof lse_before);
  copy = state_of(&other, 0);
  const uint8_t *mask_at = (const uint8_t *)put(side, mask, sizeof mask);
  OK(attn_merge_state_in_place(side->stream, &copy, &b, mask_at));
  get(side, after, other.states, sizeof after);
  for (int row = 0; row < REQUESTS; ++row) {
    const uint16_t *expected = mask[row] ? to->merged + row * ROW : before + 2 * row * ROW;
    REQUIRE(apart(after + 2 * row * ROW, expected, ROW) < (mask[row] ? 0.02 : 1e-9));
  }

  REFUSED(attn_merge_state(side->stream, &a, NULL, &out), ATTN_STATUS_INVALID_ARGUMENT, "the state b is null");
  b.lse.data = NULL;
  REFUSED(attn_merge_state(side->stream, &a, &b, &out), ATTN_STATUS_INVALID_ARGUMENT, "b.lse.data is null");
  b = state_of(at, 1);
  b.o.dtype = ATTN_DTYPE_F16;
  REFUSED(attn_merge_state(side->stream, &a, &b, &out), ATTN_STATUS_INVALID_TENSOR, "b.o");
  out.o.shape[0] = REQUESTS - 1;
  REFUSED(attn_merge_states(side->stream, &both, &out), ATTN_STATUS_INVALID_TENSOR, "states.o");
  runs[0].lse.data = NULL;
  REFUSED(attn_plan_run(plans[0], side->stream, &runs[0]), ATTN_STATUS_INVALID_TENSOR, "lse");
  for (int i = 0; i < 3; ++i) attn_plan_free(plans[i]);
  attn_attention_free(attention);
}

// Sinks that replace others, as a whole and by rows, give the result of an attention that was made with them.
static void run_tensors(Side *side, const Memory *at) {
  static const float first[QO_HEADS] = {4, 3, 2, 1, 0, -1, -2, -3}, second[2] = {5, 6};
  static const int32_t heads[2] = {7, -1};
  static const char *const want_of[2] = {"sink(logits=[4, 3, 2, 1, 0, -1, -2, -3])",
                                         "sink(logits=[4, 3, 2, 1, 0, -1, -2, 5])"};
  Requests requests;
  requests_of(&requests, REQUESTS, ONE_EACH, DECODED, FIRST);
  AttnAttention *attention = attention_of(side, "sink(logits=[0, 0, 0, 0, 0, 0, 0, 0])");
  AttnPlan *plan = plan_of(attention, &requests, 0);
  AttnRun run = run_of(at, at->o, REQUESTS);
  AttnContent content;
  memset(&content, 0, sizeof content);
  content.size = sizeof content;
  content.data = put(side, first, sizeof first);
  content.count = QO_HEADS;
  content.element = ATTN_ELEMENT_F32;
  OK(attn_set_tensor(side->stream, attention, "logits", &content));
  for (int i = 0; i < 2; ++i) {
    uint16_t got[REQUESTS * ROW], want[REQUESTS * ROW];
    OK(attn_plan_run(plan, side->stream, &run));
    get(side, got, at->o, sizeof got);
    AttnAttention *other = attention_of(side, want_of[i]);
    AttnPlan *plan_of_other = plan_of(other, &requests, 0);
    OK(attn_plan_run(plan_of_other, side->stream, &run));
    get(side, want, at->o, sizeof want);
    REQUIRE(memcmp(got, want, sizeof got) == 0);
    attn_plan_free(plan_of_other);
    attn_attention_free(other);
    content.data = put(side, second, sizeof second);
    content.count = content.rows = 2;
    content.indices = (const int32_t *)put(side, heads, sizeof heads);
    OK(attn_set_tensor_rows(side->stream, attention, "sink.logits", &content));
  }
  REFUSED(attn_set_tensor(side->stream, attention, "logits", &content), ATTN_STATUS_INVALID_TENSOR, "logits");
  REFUSED(attn_set_tensor(side->stream, attention, "logit", &content), ATTN_STATUS_INVALID_TENSOR, "logits");
  content.element = ATTN_ELEMENT_I32;
  REFUSED(attn_set_tensor_rows(side->stream, attention, "logits", &content), ATTN_STATUS_INVALID_TENSOR, "f32");
  content.element = 8;
  REFUSED(attn_set_tensor(side->stream, attention, "logits", &content), ATTN_STATUS_INVALID_ARGUMENT, "element is 8");
  content.element = ATTN_ELEMENT_F32;
  content.data = NULL;
  REFUSED(attn_set_tensor(side->stream, attention, "logits", &content), ATTN_STATUS_INVALID_ARGUMENT, "data is null");
  REFUSED(attn_set_tensor(side->stream, attention, NULL, &content), ATTN_STATUS_INVALID_ARGUMENT, "the name is null");
  attn_plan_free(plan);
  attn_attention_free(attention);
}

static Memory memory_of(Side *side) {
  Memory at;
  at.q = put(side, queries, sizeof queries);
  at.k = put(side, keys, sizeof keys);
  at.v = put(side, values, sizeof values);
  at.o = put(side, NULL, REQUESTS * ROW * 2);
  at.lse = put(side, NULL, REQUESTS * QO_HEADS * 4);
  at.states = put(side, NULL, 2 * REQUESTS * ROW * 2);
  at.states_lse = put(side, NULL, 2 * REQUESTS * QO_HEADS * 4);
  return at;
}

// A step that the caller captures on its stream: replays compute what the plan was updated to.
static void run_captured(Side *side, const Memory *at, const Outputs *want) {
  Requests requests, part;
  requests_of(&requests, REQUESTS, ONE_EACH, LONGER, FIRST);
  requests_of(&part, REQUESTS, ONE_EACH, PART, FIRST);
  AttnAttention *attention = attention_of(side, VARIANT);
  AttnPlan *plan = plan_of(attention, &requests, REQUESTS), *plan_of_part = plan_of(attention, &part, 0);
  AttnRun run = run_of(at, at->o, REQUESTS), partial = partial_of(at, 0);
  AttnState a = state_of(at, 0), b = state_of(at, 1), out = a;
  out.o = rows(at->o, REQUESTS);
  out.lse.data = NULL;
  // before a capture everything is run once
  OK(attn_plan_run(plan, side->stream, &run));
  OK(attn_plan_run(plan_of_part, side->stream, &partial));
  OK(attn_merge_state(side->stream, &a, &b, &out));
  // outputs at addresses that the library has not seen
  void *o = put(side, NULL, REQUESTS * ROW * 2), *merged = put(side, NULL, REQUESTS * ROW * 2);
  run.o = rows(o, REQUESTS);
  out.o = rows(merged, REQUESTS);

  CUgraph graph;
  CUgraphExec exec;
  CU(cu.begin_capture(side->raw, CU_CAPTURE_GLOBAL));
  OK(attn_plan_run(plan, side->stream, &run));
  OK(attn_plan_run(plan_of_part, side->stream, &partial));
  OK(attn_merge_state(side->stream, &a, &b, &out));
  REFUSED(attn_plan_update(plan, side->stream, &requests.batch), ATTN_STATUS_CUDA, "capture");
  CU(cu.end_capture(side->raw, &graph));
  CU(cu.instantiate(&exec, graph, 0));

  static const uint16_t zeros[REQUESTS * ROW] = {0};
  uint16_t got[REQUESTS * ROW];
  get(side, got, o, sizeof got);
  REQUIRE(memcmp(got, zeros, sizeof got) == 0); // a capture runs nothing
  for (int i = 0; i < 4; ++i) {
    const uint16_t *expected = i % 2 == 0 ? want->appended : want->decode;
    if (i > 0) {
      requests_of(&requests, REQUESTS, ONE_EACH, i % 2 == 0 ? LONGER : DECODED, FIRST);
      OK(attn_plan_update(plan, side->stream, &requests.batch));
    }
    CU(cu.launch(exec, side->raw));
    get(side, got, o, sizeof got);
    REQUIRE(apart(got, expected, REQUESTS * ROW) < 0.02);
    get(side, got, merged, sizeof got);
    REQUIRE(apart(got, want->merged, REQUESTS * ROW) < 0.02);
    CU(cu.to_device((CUdeviceptr)(uintptr_t)o, zeros, sizeof zeros, side->raw));
    CU(cu.to_device((CUdeviceptr)(uintptr_t)merged, zeros, sizeof zeros, side->raw));
  }
  // runs that are not captured go on beside the graph
  OK(attn_plan_run(plan, side->stream, &run));
  get(side, got, o, sizeof got);
  REQUIRE(apart(got, want->decode, REQUESTS * ROW) < 0.02);
  // the graph outlives the handles of what it captured
  attn_plan_free(plan);
  attn_plan_free(plan_of_part);
  plan = plan_of(attention, &part, REQUESTS); // takes memory that is free
  CU(cu.to_device((CUdeviceptr)(uintptr_t)o, zeros, sizeof zeros, side->raw));
  CU(cu.to_device((CUdeviceptr)(uintptr_t)merged, zeros, sizeof zeros, side->raw));
  CU(cu.launch(exec, side->raw));
  get(side, got, o, sizeof got);
  REQUIRE(apart(got, want->decode, REQUESTS * ROW) < 0.02);
  get(side, got, merged, sizeof got);
  REQUIRE(apart(got, want->merged, REQUESTS * ROW) < 0.02);
  CU(cu.exec_destroy(exec));
  CU(cu.graph_destroy(graph));
  OK(attn_plan_release_captured(plan)); // none of this one
  OK(attn_engine_release_captured(side->engine));
  attn_plan_free(plan);
  attn_attention_free(attention);
}

// Memory and streams of the wrong side are errors: nothing faults, and the device goes on.
static void refuse_other_sides(Side *cpu, const Memory *on_cpu, Side *gpu, const Memory *at, const Outputs *want) {
  Requests requests;
  requests_of(&requests, REQUESTS, ONE_EACH, LONGER, FIRST);
  AttnAttention *attention = attention_of(gpu, VARIANT), *attention_on_cpu = attention_of(cpu, VARIANT);
  AttnPlan *plan = plan_of(attention, &requests, 0), *plan_on_cpu = plan_of(attention_on_cpu, &requests, 0);
  AttnRun run = run_of(at, at->o, REQUESTS), good = run, run_on_cpu = run_of(on_cpu, on_cpu->o, REQUESTS);
  AttnTensor *tensors[4] = {&run.q, &run.k, &run.v, &run.o};
  static const char *const host[4] = {"q is at", "k is at", "v is at", "o is at"};
  void *const others[4] = {on_cpu->q, on_cpu->k, on_cpu->v, on_cpu->o};
  for (int i = 0; i < 4; ++i) {
    tensors[i]->data = others[i];
    REFUSED(attn_plan_run(plan, gpu->stream, &run), ATTN_STATUS_INVALID_TENSOR, host[i]);
    REQUIRE(strstr(attn_last_error(), "in host memory") != NULL);
    run = good;
    tensors[i]->data = (char *)(i == 2 ? at->k : tensors[i]->data) + 8; // the end of v may be at that of o
    REFUSED(attn_plan_run(plan, gpu->stream, &run), ATTN_STATUS_INVALID_TENSOR, "16");
    run = good;
    tensors[i]->data = NULL;
    REFUSED(attn_plan_run(plan, gpu->stream, &run), ATTN_STATUS_INVALID_ARGUMENT, "data is null");
    run = good;
  }
  run.q.shape[0] = REQUESTS - 1;
  REFUSED(attn_plan_run(plan, gpu->stream, &run), ATTN_STATUS_INVALID_TENSOR, "");
  REFUSED(attn_plan_run(plan, cpu->stream, &good), ATTN_STATUS_INVALID_ARGUMENT, "stream");

  AttnRun crossed = run_on_cpu;
  crossed.k.data = at->k;
  REFUSED(attn_plan_run(plan_on_cpu, cpu->stream, &crossed), ATTN_STATUS_INVALID_TENSOR, "memory of a device");
  crossed = run_on_cpu;
  crossed.o.data = at->o;
  REFUSED(attn_plan_run(plan_on_cpu, cpu->stream, &crossed), ATTN_STATUS_INVALID_TENSOR, "memory of a device");
  REFUSED(attn_plan_run(plan_on_cpu, gpu->stream, &run_on_cpu), ATTN_STATUS_INVALID_ARGUMENT, "stream");

  AttnStream *stream = NULL;
  AttnEngine *engine = NULL;
  REFUSED(attn_stream_from_raw(gpu->engine, (void *)2, &stream), ATTN_STATUS_INVALID_ARGUMENT, "each thread");
  REFUSED(attn_engine_cuda(4096, &engine), ATTN_STATUS_NO_DEVICE, "4096");
  requests.pages[0] = PAGES;
  AttnPlan *none = NULL;
  REFUSED(attn_plan_new(attention, &requests.batch, NULL, &none), ATTN_STATUS_INVALID_BATCH, "48");

  // pinned memory of the host is memory of the device too
  void *pinned = NULL;
  CU(cu.mem_host_alloc(&pinned, sizeof queries, 0));
  memcpy(pinned, queries, sizeof queries);
  run = good;
  run.q.data = pinned;
  OK(attn_plan_run(plan, gpu->stream, &run));
  uint16_t got[REQUESTS * ROW];
  get(gpu, got, at->o, sizeof got);
  REQUIRE(apart(got, want->appended, REQUESTS * ROW) < 0.02);
  CU(cu.mem_free_host(pinned));
  attn_plan_free(plan);
  attn_plan_free(plan_on_cpu);
  attn_attention_free(attention);
  attn_attention_free(attention_on_cpu);
}

static void run_all(Side *side, const Memory *at, Outputs *to) {
  run_decode(side, at, to);
  run_prefill(side, at, to);
  run_merge(side, at, to);
  run_tensors(side, at);
}

int main(void) {
  fill(queries, sizeof queries / 2);
  fill(keys, sizeof keys / 2);
  fill(values, sizeof values / 2);
  fill(new_keys, sizeof new_keys / 2);
  static Outputs want, got;
  Side cpu, gpu;
  open_side(&cpu, 0);
  Memory on_cpu = memory_of(&cpu);
  run_all(&cpu, &on_cpu, &want);

  const char *why = load_driver();
  if (why != NULL) {
    printf("no GPU: %s\n", why);
  } else {
    open_side(&gpu, 1);
    Memory at = memory_of(&gpu);
    run_all(&gpu, &at, &got);
    REQUIRE(apart(got.decode, want.decode, REQUESTS * ROW) < 0.02);
    REQUIRE(apart(got.appended, want.appended, REQUESTS * ROW) < 0.02);
    REQUIRE(apart(got.layer, want.layer, REQUESTS * ROW) < 0.02);
    REQUIRE(apart(got.merged, want.merged, REQUESTS * ROW) < 0.02);
    REQUIRE(apart(got.prefill, want.prefill, MOST_ROWS * ROW) < 0.02);
    for (int i = 0; i < REQUESTS * QO_HEADS; ++i) REQUIRE(fabsf(got.lse[i] - want.lse[i]) < 0.01f);
    run_captured(&gpu, &at, &got);
    refuse_other_sides(&cpu, &on_cpu, &gpu, &at, &got);
    close_side(&gpu);
  }
  close_side(&cpu);
  puts("ok");
  return 0;
}
