// Plans that the device makes, of lengths and pages in its memory: in compressed rows, by a block table, ragged; of
// decode and of prefill, made again and again, also by a captured step on a GPU. And what is refused. C11 and C++17.
#include "side.h"

enum { REQUESTS = 4, ROW_PAGES = 28, SETS = 3, PROMPT = 40 };

// Pages of requests are scattered, and begin here in the order of pages.
static const int FIRST[REQUESTS] = {0, 6, 12, 20};
static const int LENS[SETS][REQUESTS] = {{33, 16, 1, 120}, {5, 90, 48, 77}, {64, 1, 17, 300}};
static const int32_t ENDS[REQUESTS + 1] = {0, 1, 2, 3, 4}, PROMPTS[REQUESTS + 1] = {0, 5, 6, 7, 77};

static uint16_t queries[MOST_ROWS * ROW], keys[POOL], values[POOL];

// The memory of a side, and a batch over it.
typedef struct {
  void *q, *k, *v, *o, *qo_indptr, *kv_lens, *page_indptr, *pages, *table;
  AttnDeviceBatch batch;
} Memory;

static int page_of(int request, int page) { return (FIRST[request] + page) * 7 % PAGES; }

// Tells the device the lengths and pages of a set; the last page of a request in compressed rows is spare.
static void tell(const Side *side, const Memory *at, const int32_t *ends, const int *lens) {
  int32_t kv_lens[REQUESTS], indptr[REQUESTS + 1] = {0}, pages[PAGES + REQUESTS] = {0};
  int32_t table[REQUESTS * ROW_PAGES];
  for (int i = 0, listed = 0; i < REQUESTS; ++i) {
    kv_lens[i] = lens[i];
    for (int page = 0; page <= (lens[i] + PAGE - 1) / PAGE; ++page) pages[listed++] = page_of(i, page);
    indptr[i + 1] = listed;
    for (int page = 0; page < ROW_PAGES; ++page) table[i * ROW_PAGES + page] = page_of(i, page);
  }
  set(side, at->qo_indptr, ends, sizeof ENDS);
  set(side, at->kv_lens, kv_lens, sizeof kv_lens);
  set(side, at->page_indptr, indptr, sizeof indptr);
  set(side, at->pages, pages, sizeof pages);
  set(side, at->table, table, sizeof table);
}

static Memory memory_of(Side *side) {
  Memory at;
  at.q = put(side, queries, sizeof queries);
  at.k = put(side, keys, sizeof keys);
  at.v = put(side, values, sizeof values);
  at.o = put(side, NULL, sizeof queries);
  at.qo_indptr = put(side, ENDS, sizeof ENDS);
  at.kv_lens = put(side, NULL, REQUESTS * sizeof(int32_t));
  at.page_indptr = put(side, NULL, (REQUESTS + 1) * sizeof(int32_t));
  at.pages = put(side, NULL, (PAGES + REQUESTS) * sizeof(int32_t));
  at.table = put(side, NULL, REQUESTS * ROW_PAGES * sizeof(int32_t));
  memset(&at.batch, 0, sizeof at.batch);
  at.batch.size = sizeof at.batch;
  at.batch.requests = REQUESTS;
  at.batch.qo_indptr = (const int32_t *)at.qo_indptr;
  at.batch.kv_lens = (const int32_t *)at.kv_lens;
  return at;
}

static AttnDeviceBatch compressed(const Memory *at) {
  AttnDeviceBatch batch = at->batch;
  batch.kind = ATTN_BATCH_KIND_PAGED;
  batch.page_indptr = (const int32_t *)at->page_indptr;
  batch.page_indices = (const int32_t *)at->pages;
  batch.page_entries = PAGES + REQUESTS;
  return batch;
}

static AttnDeviceBatch padded(const Memory *at) {
  AttnDeviceBatch batch = at->batch;
  batch.kind = ATTN_BATCH_KIND_BLOCK_TABLE;
  batch.pages_per_request = ROW_PAGES;
  batch.page_indices = (const int32_t *)at->table;
  return batch;
}

static AttnRun run_of(const Memory *at, int rows, int paged) {
  AttnRun run;
  memset(&run, 0, sizeof run);
  run.size = sizeof run;
  run.q = tensor(at->q, ATTN_DTYPE_BF16, 3, rows, QO_HEADS, DIM, 0);
  run.o = tensor(at->o, ATTN_DTYPE_BF16, 3, rows, QO_HEADS, DIM, 0);
  run.k = paged ? tensor(at->k, ATTN_DTYPE_BF16, 4, PAGES, PAGE, KV_HEADS, DIM)
                : tensor(at->k, ATTN_DTYPE_BF16, 3, PAGES * PAGE, KV_HEADS, DIM, 0);
  run.v = run.k;
  run.v.data = at->v;
  return run;
}

// A plan for all slots of the pool and for `rows` queries, one a request where they are as many; it is made of a batch
// without any.
static AttnPlan *plan_for(const AttnAttention *attention, int rows, int paged, int has_capacity, uint32_t levels) {
  static const int32_t zeros[2] = {0, 0};
  AttnBatch batch;
  memset(&batch, 0, sizeof batch);
  batch.size = sizeof batch;
  batch.requests = 1;
  batch.qo_indptr = batch.kv_indptr = batch.page_indptr = batch.last_page_len = zeros;
  batch.kind = paged ? ATTN_BATCH_KIND_PAGED : ATTN_BATCH_KIND_RAGGED;
  AttnCapacity capacity;
  memset(&capacity, 0, sizeof capacity);
  capacity.size = sizeof capacity;
  capacity.requests = REQUESTS;
  capacity.qo_tokens = (uint32_t)rows;
  capacity.qo_len = rows == REQUESTS;
  capacity.kv_tokens = PAGES * PAGE;
  capacity.levels = levels;
  if (paged) batch.page_size = capacity.page_size = PAGE, batch.num_pages = capacity.num_pages = PAGES;
  AttnPlan *plan = NULL;
  OK(attn_plan_new(attention, &batch, has_capacity ? &capacity : NULL, &plan));
  return plan;
}

// The outputs are those of `lens` keys of each request, of which a query sees those up to its own.
static void expect(const Side *side, const Memory *at, const int32_t *ends, const int *lens, int paged) {
  static uint16_t o[MOST_ROWS * ROW];
  get(side, o, at->o, sizeof o);
  for (int i = 0, first = 0; i < REQUESTS; first += lens[i++]) {
    int slots[PAGES * PAGE];
    for (int t = 0; t < lens[i]; ++t) slots[t] = paged ? page_of(i, t / PAGE) * PAGE + t % PAGE : first + t;
    for (int row = ends[i]; row < ends[i + 1]; ++row) {
      const int visible = lens[i] - (ends[i + 1] - 1 - row);
      REQUIRE(off(o + row * ROW, queries + row * ROW, keys, values, slots, visible) < 0.02);
    }
  }
}

// Nothing is written by a run of a batch that the device refuses; of the CPU the update fails.
static void expect_refused(Side *side, const Memory *at, AttnPlan *plan, const AttnDeviceBatch *batch) {
  uint16_t before[REQUESTS * ROW], after[REQUESTS * ROW];
  AttnRun run = run_of(at, REQUESTS, 1);
  OK(attn_plan_run(plan, side->stream, &run));
  get(side, before, at->o, sizeof before);
  static const int32_t negative[REQUESTS] = {1, -3, 1, 1}, many[REQUESTS] = {400, 0, 0, 400};
  for (int i = 0; i < 2; ++i) {
    set(side, at->kv_lens, i == 0 ? negative : many, sizeof negative);
    if (!side->is_gpu) {
      REFUSED(attn_plan_update_on_device(plan, side->stream, batch), ATTN_STATUS_INVALID_BATCH, i == 0 ? "-3" : "");
      continue;
    }
    OK(attn_plan_update_on_device(plan, side->stream, batch));
    REFUSED(attn_plan_device_status(plan, side->stream), ATTN_STATUS_INVALID_BATCH, "");
    OK(attn_plan_run(plan, side->stream, &run));
    get(side, after, at->o, sizeof after);
    REQUIRE(memcmp(before, after, sizeof after) == 0);
  }
}

static void refuse(Side *side, const Memory *at, AttnAttention *attention, AttnPlan *plan) {
  const AttnStatus refused = ATTN_STATUS_INVALID_ARGUMENT;
  AttnDeviceBatch good = padded(at), bad = good;
  AttnStream *stream = side->stream;
  REFUSED(attn_plan_update_on_device(NULL, stream, &good), refused, "the plan is null");
  REFUSED(attn_plan_update_on_device(plan, NULL, &good), refused, "the stream is null");
  REFUSED(attn_plan_update_on_device(plan, stream, NULL), refused, "AttnDeviceBatch is null");
  REFUSED(attn_plan_prepare_device_updates(NULL), refused, "the plan is null");
  REFUSED(attn_plan_device_status(NULL, stream), refused, "the plan is null");
  REFUSED(attn_plan_device_status(plan, NULL), refused, "the stream is null");
  bad.size = sizeof bad - 4;
  REFUSED(attn_plan_update_on_device(plan, stream, &bad), refused, "AttnDeviceBatch.size is");
  bad = good, bad.kind = ATTN_BATCH_KIND_LEVELS;
  REFUSED(attn_plan_update_on_device(plan, stream, &bad), refused, "AttnDeviceBatch.kind is 3");
  bad = good, bad.requests = SIZE_MAX;
  REFUSED(attn_plan_update_on_device(plan, stream, &bad), refused, "AttnDeviceBatch.requests is");
  bad = good, bad.qo_indptr = NULL;
  REFUSED(attn_plan_update_on_device(plan, stream, &bad), refused, "AttnDeviceBatch.qo_indptr is null");
  bad = good, bad.kv_lens = (const int32_t *)(const void *)((const char *)at->kv_lens + 1);
  REFUSED(attn_plan_update_on_device(plan, stream, &bad), refused, "AttnDeviceBatch.kv_lens is at no multiple of 4");
  bad = good, bad.page_indices = NULL;
  REFUSED(attn_plan_update_on_device(plan, stream, &bad), refused, "page_indices is null, and should have 112 entries");
  bad = compressed(at), bad.page_indptr = NULL;
  REFUSED(attn_plan_update_on_device(plan, stream, &bad), refused, "AttnDeviceBatch.page_indptr is null");
  bad = at->batch; // ragged, and the plan is of pages
  REFUSED(attn_plan_update_on_device(plan, stream, &bad), ATTN_STATUS_INVALID_BATCH, "ragged");
  if (side->is_gpu) {
    bad = good, bad.kv_lens = ENDS;
    const AttnStatus elsewhere = ATTN_STATUS_INVALID_TENSOR;
    REFUSED(attn_plan_update_on_device(plan, stream, &bad), elsewhere, "AttnDeviceBatch.kv_lens is at");
  }
  AttnPlan *of_one = plan_for(attention, REQUESTS, 1, 0, 0);
  REFUSED(attn_plan_update_on_device(of_one, stream, &good), ATTN_STATUS_INVALID_BATCH, "capacity");
  REFUSED(attn_plan_prepare_device_updates(of_one), ATTN_STATUS_INVALID_BATCH, "capacity");
  REFUSED(attn_plan_device_status(of_one, stream), ATTN_STATUS_INVALID_BATCH, "capacity");
  attn_plan_free(of_one);
}

// Replays of a captured step plan what the arrays hold then.
static void replay(Side *side, const Memory *at, const int32_t *ends, AttnPlan *plan, AttnRun run) {
  CUgraph graph;
  CUgraphExec exec;
  AttnDeviceBatch batch = padded(at);
  CU(cu.begin_capture(side->raw, CU_CAPTURE_GLOBAL));
  OK(attn_plan_update_on_device(plan, side->stream, &batch));
  OK(attn_plan_run(plan, side->stream, &run));
  CU(cu.end_capture(side->raw, &graph));
  CU(cu.instantiate(&exec, graph, 0));
  for (int i = 0; i < 2 * SETS; ++i) {
    tell(side, at, ends, LENS[i % SETS]);
    CU(cu.launch(exec, side->raw));
    expect(side, at, ends, LENS[i % SETS], 1);
  }
  CU(cu.exec_destroy(exec));
  CU(cu.graph_destroy(graph));
  OK(attn_plan_release_captured(plan));
}

// All requests share a prompt, which lies in the first pages of request 3.
static void share(Side *side, const Memory *at, const AttnAttention *attention) {
  static const int32_t all[2] = {0, REQUESTS}, first[2] = {0, (PROMPT + PAGE - 1) / PAGE};
  const int *lens = LENS[1];
  int32_t prompt = PROMPT, pages[(PROMPT + PAGE - 1) / PAGE];
  for (int page = 0; page < first[1]; ++page) pages[page] = page_of(3, page);
  tell(side, at, ENDS, lens);
  AttnDeviceBatch level = at->batch, batch = padded(at);
  level.requests = 1;
  level.kind = ATTN_BATCH_KIND_PAGED;
  level.qo_indptr = (const int32_t *)put(side, all, sizeof all);
  level.kv_lens = (const int32_t *)put(side, &prompt, sizeof prompt);
  level.page_indptr = (const int32_t *)put(side, first, sizeof first);
  level.page_indices = (const int32_t *)put(side, pages, sizeof pages);
  level.page_entries = (size_t)first[1];
  batch.levels = &level;
  batch.level_count = 1;
  AttnPlan *plan = plan_for(attention, REQUESTS, 1, 1, 2);
  AttnRun run = run_of(at, REQUESTS, 1);
  OK(attn_plan_update_on_device(plan, side->stream, &batch));
  OK(attn_plan_run(plan, side->stream, &run));
  OK(attn_plan_device_status(plan, side->stream));
  static uint16_t o[MOST_ROWS * ROW];
  get(side, o, at->o, sizeof o);
  for (int i = 0; i < REQUESTS; ++i) {
    int slots[PAGES * PAGE];
    for (int t = 0; t < PROMPT; ++t) slots[t] = page_of(3, t / PAGE) * PAGE + t % PAGE;
    for (int t = 0; t < lens[i]; ++t) slots[PROMPT + t] = page_of(i, t / PAGE) * PAGE + t % PAGE;
    REQUIRE(off(o + i * ROW, queries + i * ROW, keys, values, slots, PROMPT + lens[i]) < 0.02);
  }
  level.level_count = 1;
  REFUSED(attn_plan_update_on_device(plan, side->stream, &batch), ATTN_STATUS_INVALID_ARGUMENT, "levels[0]");
  attn_plan_free(plan);
}

static void run_side(Side *side) {
  Memory at = memory_of(side);
  AttnAttention *attention = attention_of(side, "causal");
  for (int how = 0; how < 3; ++how) {
    const int paged = how > 0, rows = how == 2 ? (int)MOST_ROWS : (int)REQUESTS;
    const int32_t *ends = how == 2 ? PROMPTS : ENDS;
    AttnPlan *plan = plan_for(attention, rows, paged, 1, 0);
    AttnRun run = run_of(&at, rows, paged);
    OK(attn_plan_prepare_device_updates(plan));
    for (int i = 0; i < 2 * SETS; ++i) {
      AttnDeviceBatch batch = !paged ? at.batch : i % 2 == 0 ? compressed(&at) : padded(&at);
      tell(side, &at, ends, LENS[i % SETS]);
      OK(attn_plan_update_on_device(plan, side->stream, &batch));
      OK(attn_plan_run(plan, side->stream, &run));
      OK(attn_plan_device_status(plan, side->stream));
      expect(side, &at, ends, LENS[i % SETS], paged);
    }
    if (side->is_gpu && paged) replay(side, &at, ends, plan, run);
    if (how == 1) {
      AttnDeviceBatch batch = padded(&at);
      expect_refused(side, &at, plan, &batch);
      refuse(side, &at, attention, plan);
    }
    attn_plan_free(plan);
  }
  share(side, &at, attention);
  attn_attention_free(attention);
}

int main(void) {
  fill(queries, MOST_ROWS * ROW);
  fill(keys, POOL);
  fill(values, POOL);
  on_both_sides(run_side);
  return 0;
}
