// Keys that requests share, level by level (a cascade): ragged and in pages, in a plan of their own and in one that is
// updated between batches with levels and without; and levels that are refused. C11 and C++17.
#include "side.h"

enum { REQUESTS = 3, LEVELS = 3 };

static const int32_t ENDS[REQUESTS + 1] = {0, 1, 2, 3}, GROUPS[3] = {0, 2, 3}, ALL[2] = {0, 3};

static uint16_t queries[REQUESTS * ROW], keys[POOL], values[POOL];

// The keys of a request: ranges of slots, level by level.
typedef struct {
  int count, slots[PAGES * PAGE];
} Keys;

static void add(Keys *of, int first, int end) {
  for (int slot = first; slot < end; ++slot) of->slots[of->count++] = slot;
}

// A level, or a batch without keys of its own: its groups begin at `qo_indptr`.
static AttnBatch batch_of(size_t requests, const int32_t *qo_indptr) {
  AttnBatch batch;
  memset(&batch, 0, sizeof batch);
  batch.size = sizeof batch;
  batch.requests = requests;
  batch.qo_indptr = qo_indptr;
  return batch;
}

static AttnBatch ragged(size_t groups, const int32_t *qo_indptr, const int32_t *kv_indptr) {
  AttnBatch level = batch_of(groups, qo_indptr);
  level.kv_indptr = kv_indptr;
  return level;
}

static AttnBatch in_levels(const AttnBatch *levels, size_t count) {
  AttnBatch batch = batch_of(REQUESTS, ENDS);
  batch.kind = ATTN_BATCH_KIND_LEVELS;
  batch.levels = levels;
  batch.level_count = count;
  return batch;
}

static AttnRun run_of(const void *const at[4], int paged) {
  AttnRun run;
  memset(&run, 0, sizeof run);
  run.size = sizeof run;
  run.q = tensor((void *)at[0], ATTN_DTYPE_BF16, 3, REQUESTS, QO_HEADS, DIM, 0);
  run.o = run.q;
  run.o.data = (void *)at[3];
  run.k = paged ? tensor((void *)at[1], ATTN_DTYPE_BF16, 4, PAGES, PAGE, KV_HEADS, DIM)
                : tensor((void *)at[1], ATTN_DTYPE_BF16, 3, PAGES * PAGE, KV_HEADS, DIM, 0);
  run.v = run.k;
  run.v.data = (void *)at[2];
  return run;
}

static void expect(Side *side, const AttnPlan *plan, const AttnRun *run, const Keys *want) {
  uint16_t o[REQUESTS * ROW];
  OK(attn_plan_run(plan, side->stream, run));
  get(side, o, run->o.data, sizeof o);
  for (int i = 0; i < REQUESTS; ++i)
    REQUIRE(off(o + i * ROW, queries + i * ROW, keys, values, want[i].slots, want[i].count) < 0.02);
}

// A capacity for `levels` levels of decode over the whole pool.
static AttnCapacity capacity_of(uint32_t levels, int paged) {
  AttnCapacity capacity;
  memset(&capacity, 0, sizeof capacity);
  capacity.size = sizeof capacity;
  capacity.requests = capacity.qo_tokens = REQUESTS;
  capacity.qo_len = 1;
  capacity.levels = levels;
  capacity.kv_tokens = REQUESTS * PAGES * PAGE; // a key that is shared counts for each request
  if (paged)
    capacity.page_size = PAGE, capacity.num_pages = PAGES;
  else
    capacity.kv_memory_tokens = PAGES * PAGE;
  return capacity;
}

static void run_ragged(Side *side, const AttnAttention *attention, const void *const at[4]) {
  static const int32_t shared[] = {0, 500}, examples[] = {500, 520, 520}, own[] = {520, 523, 524, 600};
  static const int32_t flat[] = {0, 7, 9, 80};
  AttnBatch levels[LEVELS] = {ragged(1, ALL, shared), ragged(2, GROUPS, examples), ragged(REQUESTS, ENDS, own)};
  AttnBatch batch = in_levels(levels, LEVELS), without = ragged(REQUESTS, ENDS, flat);
  static Keys cascade[REQUESTS], alone[REQUESTS];
  memset(cascade, 0, sizeof cascade);
  memset(alone, 0, sizeof alone);
  for (int i = 0; i < REQUESTS; ++i) {
    add(&cascade[i], 0, 500);
    if (i < 2) add(&cascade[i], 500, 520);
    add(&cascade[i], own[i], own[i + 1]);
    add(&alone[i], flat[i], flat[i + 1]);
  }
  AttnRun run = run_of(at, 0), exact = run;
  exact.k.shape[0] = exact.v.shape[0] = 600; // without a capacity they have the tokens of the batch
  AttnPlan *plan = NULL;
  OK(attn_plan_new(attention, &batch, NULL, &plan));
  expect(side, plan, &exact, cascade);
  attn_plan_free(plan);

  AttnCapacity capacity = capacity_of(LEVELS, 0);
  OK(attn_plan_new(attention, &without, &capacity, &plan));
  expect(side, plan, &run, alone);
  for (int i = 0; i < 2; ++i) {
    OK(attn_plan_update(plan, side->stream, &batch));
    expect(side, plan, &run, cascade);
    OK(attn_plan_update(plan, side->stream, &without));
    expect(side, plan, &run, alone);
  }
  attn_plan_free(plan);
}

static void run_paged(Side *side, const AttnAttention *attention, const void *const at[4]) {
  static const int32_t shared_indptr[] = {0, 3}, shared_pages[] = {40, 3, 17}, shared_last[] = {PAGE};
  static const int32_t own_indptr[] = {0, 1, 3, 4}, own_pages[] = {0, 9, 2, 30}, own_last[] = {5, 16, 1};
  AttnBatch levels[2] = {paged_batch(1, ALL, PAGE, PAGES, shared_indptr, shared_pages, shared_last),
                         paged_batch(REQUESTS, ENDS, PAGE, PAGES, own_indptr, own_pages, own_last)};
  AttnBatch batch = in_levels(levels, 2);
  static Keys want[REQUESTS];
  memset(want, 0, sizeof want);
  for (int i = 0; i < REQUESTS; ++i) {
    for (int page = 0; page < 3; ++page) add(&want[i], shared_pages[page] * PAGE, (shared_pages[page] + 1) * PAGE);
    for (int page = own_indptr[i]; page < own_indptr[i + 1]; ++page) {
      const int count = page + 1 == own_indptr[i + 1] ? own_last[i] : PAGE;
      add(&want[i], own_pages[page] * PAGE, own_pages[page] * PAGE + count);
    }
  }
  AttnRun run = run_of(at, 1);
  AttnCapacity capacity = capacity_of(2, 1);
  AttnPlan *plan = NULL;
  for (int i = 0; i < 2; ++i) {
    OK(attn_plan_new(attention, &batch, i == 0 ? NULL : &capacity, &plan));
    expect(side, plan, &run, want);
    if (i == 0) attn_plan_free(plan);
  }

  // levels of structs that are longer than this library knows
  struct {
    AttnBatch batch;
    size_t newer;
  } longer[2] = {{levels[0], 0}, {levels[1], 0}};
  longer[0].batch.size = longer[1].batch.size = sizeof longer[0];
  batch.levels = &longer[0].batch;
  OK(attn_plan_update(plan, side->stream, &batch));
  expect(side, plan, &run, want);
  longer[1].newer = 1;
  REFUSED(attn_plan_update(plan, side->stream, &batch), ATTN_STATUS_INVALID_ARGUMENT, "AttnBatch.levels[1]: AttnBatch");
  batch.levels = levels;
  levels[1].page_indices = NULL;
  REFUSED(attn_plan_update(plan, side->stream, &batch), ATTN_STATUS_INVALID_ARGUMENT,
          "AttnBatch.levels[1]: AttnBatch.page_indices is null");
  expect(side, plan, &run, want); // nothing has changed
  attn_plan_free(plan);
}

static void refuse(Side *side, const AttnAttention *attention) {
  static const int32_t shared[] = {0, 8}, own[] = {8, 9, 10, 11}, flat[] = {0, 1, 2, 3}, fewer[] = {0, 2};
  const AttnStatus argument = ATTN_STATUS_INVALID_ARGUMENT, invalid = ATTN_STATUS_INVALID_BATCH;
  AttnBatch levels[2] = {ragged(1, ALL, shared), ragged(REQUESTS, ENDS, own)};
  AttnBatch good = in_levels(levels, 2), batch = good;
  AttnPlan *plan = NULL;
  batch.levels = NULL;
  REFUSED(attn_plan_new(attention, &batch, NULL, &plan), argument, "AttnBatch.levels is null, and should have 2");
  batch.levels = (const AttnBatch *)(const void *)((const char *)levels + 1);
  REFUSED(attn_plan_new(attention, &batch, NULL, &plan), argument, "AttnBatch.levels is at no multiple");
  batch = good, batch.level_count = 0;
  REFUSED(attn_plan_new(attention, &batch, NULL, &plan), invalid, "a cascade of no levels");
  batch = good, batch.kind = 4;
  REFUSED(attn_plan_new(attention, &batch, NULL, &plan), argument, "AttnBatch.kind is 4");
  levels[1].kind = ATTN_BATCH_KIND_BLOCK_TABLE, levels[1].kv_lens = own;
  REFUSED(attn_plan_new(attention, &good, NULL, &plan), argument, "AttnBatch.levels[1]: AttnBatch.kind");
  levels[1] = good;
  REFUSED(attn_plan_new(attention, &good, NULL, &plan), argument, "AttnBatch.levels[1]: AttnBatch.kind");
  levels[1] = ragged(REQUESTS, ENDS, own);
  levels[1].size = 3;
  REFUSED(attn_plan_new(attention, &good, NULL, &plan), argument, "AttnBatch.levels[1]: AttnBatch.size is 3");
  levels[1] = ragged(1, fewer, shared);
  REFUSED(attn_plan_new(attention, &good, NULL, &plan), invalid, "level 1: qo_indptr ends at 2");
  levels[1] = ragged(REQUESTS, ENDS, own);
  // a struct of an older version has no levels
  batch = good, batch.size = offsetof(AttnBatch, levels);
  REFUSED(attn_plan_new(attention, &batch, NULL, &plan), invalid, "a cascade of no levels");

  AttnBatch without = ragged(REQUESTS, ENDS, flat);
  without.size = offsetof(AttnBatch, levels);
  for (uint32_t most = 0; most < 3; ++most) {
    AttnCapacity capacity = capacity_of(most, 0);
    OK(attn_plan_new(attention, &without, &capacity, &plan));
    if (most < 2)
      REFUSED(attn_plan_update(plan, side->stream, &good), invalid, "capacity has none");
    else
      OK(attn_plan_update(plan, side->stream, &good));
    attn_plan_free(plan);
  }
  AttnCapacity capacity = capacity_of(2, 0);
  capacity.kv_memory_tokens = 10;
  OK(attn_plan_new(attention, &without, &capacity, &plan));
  REFUSED(attn_plan_update(plan, side->stream, &good), invalid, "11 tokens of k and v");
  attn_plan_free(plan);
  static const int32_t two_each[] = {0, 2, 2, 2};
  without.qo_indptr = two_each;
  REFUSED(attn_plan_new(attention, &without, &capacity, &plan), invalid, "2 queries in one request");
}

static void run_side(Side *side) {
  const void *const at[4] = {put(side, queries, sizeof queries), put(side, keys, sizeof keys),
                             put(side, values, sizeof values), put(side, NULL, sizeof queries)};
  AttnAttention *attention = attention_of(side, "causal");
  run_ragged(side, attention, at);
  run_paged(side, attention, at);
  refuse(side, attention);
  attn_attention_free(attention);
}

int main(void) {
  fill(queries, REQUESTS * ROW);
  fill(keys, POOL);
  fill(values, POOL);
  on_both_sides(run_side);
  return 0;
}
