// Drafts of speculative decoding: chains and trees whose outcome is certain, and the frequencies of what is emitted for
// many seeds, which are those of the model; then calls that must fail. C11 and C++17.
#include "side.h"

enum { DRAFTS = 2, VOCAB = 5, MANY = 20000, NODES = 4 };

static void *zeros(Side *side, size_t count, size_t size) { return put(side, NULL, count * size); }

static AttnTensor probs_of(void *data, int requests, int rows) {
  return tensor(data, ATTN_DTYPE_F32, 3, requests, rows, VOCAB, 0);
}

static AttnChainOut chain_out(Side *side, size_t requests) {
  AttnChainOut out;
  memset(&out, 0, sizeof out);
  out.size = sizeof out;
  out.ids = (int32_t *)zeros(side, requests * (DRAFTS + 1), 4);
  out.accepted = (int32_t *)zeros(side, requests, 4);
  out.emitted = (int32_t *)zeros(side, requests, 4);
  out.positions = (int64_t *)zeros(side, requests, 8);
  return out;
}

static AttnTreeOut tree_out(Side *side, size_t requests) {
  AttnTreeOut out;
  memset(&out, 0, sizeof out);
  out.size = sizeof out;
  out.ids = (int32_t *)zeros(side, requests * NODES, 4);
  out.accept_index = (int32_t *)zeros(side, requests * NODES, 4);
  out.accepted = (int32_t *)zeros(side, requests, 4);
  out.positions = (int64_t *)zeros(side, requests, 8);
  return out;
}

static const uint64_t *seeds_of(Side *side) {
  static uint64_t seeds[MANY];
  for (int i = 0; i < MANY; ++i) seeds[i] = UINT64_C(0x9e3779b97f4a7c15) * (uint64_t)(i + 1);
  return (const uint64_t *)put(side, seeds, sizeof seeds);
}

// Tokens are as frequent as they are probable.
static void expect_frequencies(const int *drawn, int total, const float *probs) {
  for (int t = 0; t < VOCAB; ++t) {
    const double p = probs[t];
    REQUIRE(fabs(drawn[t] - total * p) <= 5 * sqrt(total * p * (1 - p)) + 1e-9);
  }
}

static AttnChainDrafts chain_of(Side *side, int requests, const float *draft, const float *target, const int32_t *ids) {
  const size_t rows = (size_t)requests * DRAFTS, row = VOCAB * sizeof(float);
  AttnChainDrafts drafts;
  memset(&drafts, 0, sizeof drafts);
  drafts.size = sizeof drafts;
  drafts.draft_probs = probs_of(put(side, draft, rows * row), requests, DRAFTS);
  drafts.target_probs = probs_of(put(side, target, (rows + (size_t)requests) * row), requests, DRAFTS + 1);
  drafts.draft_ids = (const int32_t *)put(side, ids, rows * sizeof(int32_t));
  return drafts;
}

// Four requests: both drafts pass, the first fails, the second fails, there is one draft alone.
static void run_certain_chains(Side *side) {
  static const float draft[4][DRAFTS][VOCAB] = {
      {{0, 1}, {0, 0, 1}}, {{0, 1}, {0, 0, 1}}, {{0, 1}, {0, 0, 1}}, {{0, 1}, {0}}};
  static const float target[4][DRAFTS + 1][VOCAB] = {{{0, 1}, {0, 0, 1}, {0, 0, 0, 1}},
                                                     {{0, 0, 0, 0, 1}, {0, 0, 1}, {0, 0, 0, 1}},
                                                     {{0, 1}, {0, 0, 0, 1}, {1}},
                                                     {{0, 1}, {0, 0, 0, 0, 1}, {1}}};
  static const int32_t ids[4][DRAFTS] = {{1, 2}, {1, 2}, {1, 2}, {1, -1}};
  static const int32_t want[4][DRAFTS + 1] = {{1, 2, 3}, {4, -1, -1}, {1, 3, -1}, {1, 4, -1}};
  static const int32_t want_accepted[4] = {2, 1, 1, 1}, want_emitted[4] = {2, 0, 1, 1};
  AttnChainDrafts drafts = chain_of(side, 4, &draft[0][0][0], &target[0][0][0], &ids[0][0]);
  drafts.seeds.value = 7;
  AttnChainOut out = chain_out(side, 4);
  OK(attn_verify_chain(side->stream, &drafts, &out));
  int32_t got[4][DRAFTS + 1], accepted[4], emitted[4];
  int64_t positions[4];
  get(side, got, out.ids, sizeof got);
  get(side, accepted, out.accepted, sizeof accepted);
  get(side, emitted, out.emitted, sizeof emitted);
  get(side, positions, out.positions, sizeof positions);
  REQUIRE(memcmp(got, want, sizeof got) == 0);
  REQUIRE(memcmp(accepted, want_accepted, sizeof accepted) == 0);
  REQUIRE(memcmp(emitted, want_emitted, sizeof emitted) == 0);
  for (int i = 0; i < 4; ++i) REQUIRE(positions[i] == emitted[i] + 1);
}

// Drafts that are drawn from other probabilities: the tokens emitted have those of the model.
static void run_chains(Side *side) {
  static const float of_draft[VOCAB] = {0.5f, 0.1f, 0.2f, 0.15f, 0.05f};
  static const float of_model[VOCAB] = {0.1f, 0.3f, 0.2f, 0.0f, 0.4f};
  static float draft[MANY][DRAFTS][VOCAB], target[MANY][DRAFTS + 1][VOCAB];
  static int32_t ids[MANY][DRAFTS], got[MANY][DRAFTS + 1], emitted[MANY];
  for (int i = 0; i < MANY; ++i) {
    for (int j = 0; j <= DRAFTS; ++j) {
      memcpy(target[i][j], of_model, sizeof of_model);
      if (j == DRAFTS) continue;
      memcpy(draft[i][j], of_draft, sizeof of_draft);
      float random = (random_number() + 1.0f) / 2.0f;
      int token = 0;
      while (token < VOCAB - 1 && random >= of_draft[token]) random -= of_draft[token++];
      ids[i][j] = token;
    }
  }
  AttnChainDrafts drafts = chain_of(side, MANY, &draft[0][0][0], &target[0][0][0], &ids[0][0]);
  drafts.seeds.array = seeds_of(side);
  AttnChainOut out = chain_out(side, MANY);
  OK(attn_verify_chain(side->stream, &drafts, &out));
  get(side, got, out.ids, sizeof got);
  get(side, emitted, out.emitted, sizeof emitted);
  for (int place = 0; place <= DRAFTS; ++place) {
    int drawn[VOCAB] = {0}, total = 0;
    for (int i = 0; i < MANY; ++i) {
      if (place > emitted[i]) continue;
      REQUIRE(got[i][place] >= 0 && got[i][place] < VOCAB);
      ++drawn[got[i][place]], ++total;
    }
    REQUIRE(total > MANY / 8);
    expect_frequencies(drawn, total, of_model);
  }
}

static AttnTreeDrafts tree_of(Side *side, int requests, const float *target, const int32_t *const arrays[4]) {
  const size_t nodes = (size_t)requests * NODES;
  AttnTreeDrafts drafts;
  memset(&drafts, 0, sizeof drafts);
  drafts.size = sizeof drafts;
  drafts.target_probs = probs_of(put(side, target, nodes * VOCAB * sizeof(float)), requests, NODES);
  const int32_t **const fields[4] = {&drafts.draft_ids, &drafts.retrieve_index, &drafts.retrieve_next_token,
                                     &drafts.retrieve_next_sibling};
  for (int i = 0; i < 4; ++i) *fields[i] = (const int32_t *)put(side, arrays[i], nodes * sizeof(int32_t));
  return drafts;
}

// Node 0 has the children 1 and 2, of tokens 1 and 2; node 2 has the child 3, of token 3.
static void run_trees(Side *side) {
  static const float of_model[VOCAB] = {0.1f, 0.3f, 0.2f, 0.0f, 0.4f};
  static float target[MANY][NODES][VOCAB];
  static int32_t ids[MANY][NODES], index[MANY][NODES], next[MANY][NODES], sibling[MANY][NODES], got[MANY][NODES];
  for (int i = 0; i < MANY; ++i) {
    static const int32_t tokens[NODES] = {0, 1, 2, 3}, child[NODES] = {1, -1, 3, -1}, after[NODES] = {-1, 2, -1, -1};
    memcpy(ids[i], tokens, sizeof tokens);
    memcpy(next[i], child, sizeof child);
    memcpy(sibling[i], after, sizeof after);
    for (int node = 0; node < NODES; ++node) {
      index[i][node] = i * NODES + (node + 1) % NODES; // any order
      memcpy(target[i][node], of_model, sizeof of_model);
    }
  }
  const int32_t *const arrays[4] = {ids[0], index[0], next[0], sibling[0]};
  AttnTreeDrafts drafts = tree_of(side, MANY, &target[0][0][0], arrays);
  drafts.seeds.array = seeds_of(side);
  AttnTreeOut out = tree_out(side, MANY);
  OK(attn_verify_tree(side->stream, &drafts, &out));
  get(side, got, out.ids, sizeof got);
  int drawn[VOCAB] = {0};
  for (int i = 0; i < MANY; ++i) ++drawn[got[i][1]]; // behind node 0
  expect_frequencies(drawn, MANY, of_model);

  // a request whose path is certain: 0, 2, 3, and token 4
  static const float certain[NODES][VOCAB] = {{0, 0, 1}, {1}, {0, 0, 0, 1}, {0, 0, 0, 0, 1}};
  static const int32_t want[NODES] = {4, 2, 0, 3}, want_index[NODES] = {1, 3, 0, -1};
  drafts = tree_of(side, 1, &certain[0][0], arrays);
  out = tree_out(side, 1);
  OK(attn_verify_tree(side->stream, &drafts, &out));
  int32_t accept_index[NODES], accepted;
  int64_t position;
  get(side, got, out.ids, sizeof want);
  get(side, accept_index, out.accept_index, sizeof accept_index);
  get(side, &accepted, out.accepted, sizeof accepted);
  get(side, &position, out.positions, sizeof position);
  REQUIRE(memcmp(got, want, sizeof want) == 0 && memcmp(accept_index, want_index, sizeof want_index) == 0);
  REQUIRE(accepted == 2 && position == 3);

  // a draft that reaches a threshold is accepted
  drafts = tree_of(side, 1, &target[0][0][0], arrays);
  drafts.threshold_single = 0.3f;
  out = tree_out(side, 1);
  OK(attn_verify_tree(side->stream, &drafts, &out));
  get(side, got, out.ids, sizeof want);
  REQUIRE(got[0][1] == 1);

  const AttnStatus argument = ATTN_STATUS_INVALID_ARGUMENT, refused = ATTN_STATUS_INVALID_TENSOR;
  AttnTreeDrafts bad = drafts;
  AttnTreeOut other = out;
  REFUSED(attn_verify_tree(NULL, &drafts, &out), argument, "the stream is null");
  REFUSED(attn_verify_tree(side->stream, NULL, &out), argument, "AttnTreeDrafts is null");
  REFUSED(attn_verify_tree(side->stream, &drafts, NULL), argument, "AttnTreeOut is null");
  bad.size = 8;
  REFUSED(attn_verify_tree(side->stream, &bad, &out), argument, "AttnTreeDrafts.size is 8");
  other.size = 8;
  REFUSED(attn_verify_tree(side->stream, &drafts, &other), argument, "AttnTreeOut.size is 8");
  bad = drafts, bad.retrieve_next_token = NULL;
  REFUSED(attn_verify_tree(side->stream, &bad, &out), argument, "AttnTreeDrafts.retrieve_next_token is null");
  other = out, other.accept_index = NULL;
  REFUSED(attn_verify_tree(side->stream, &drafts, &other), argument, "AttnTreeOut.accept_index is null");
  other = out, other.accept_index = out.ids;
  REFUSED(attn_verify_tree(side->stream, &drafts, &other), refused, "AttnTreeOut.accept_index shares memory with");
  bad = drafts, bad.threshold_acc = 1.5f;
  REFUSED(attn_verify_tree(side->stream, &bad, &out), refused, "`threshold_acc` is 1.5");
  if (!side->is_gpu) {
    static const int32_t far_away[NODES] = {1, 9, -1, -1};
    bad = drafts, bad.retrieve_next_token = far_away;
    REFUSED(attn_verify_tree(side->stream, &bad, &out), refused, "retrieve_next_token[1]` is 9");
  }
}

static void refuse(Side *side) {
  static const float probs[DRAFTS + 1][VOCAB] = {{1}, {1}, {1}};
  static const int32_t ids[DRAFTS] = {0, 0}, outside[DRAFTS] = {0, VOCAB};
  const AttnStatus argument = ATTN_STATUS_INVALID_ARGUMENT, refused = ATTN_STATUS_INVALID_TENSOR;
  AttnChainDrafts drafts = chain_of(side, 1, &probs[0][0], &probs[0][0], ids), bad = drafts;
  AttnChainOut out = chain_out(side, 1), other = out;
  REFUSED(attn_verify_chain(NULL, &drafts, &out), argument, "the stream is null");
  REFUSED(attn_verify_chain(side->stream, NULL, &out), argument, "AttnChainDrafts is null");
  REFUSED(attn_verify_chain(side->stream, &drafts, NULL), argument, "AttnChainOut is null");
  bad.size = 16, other.size -= 8;
  REFUSED(attn_verify_chain(side->stream, &bad, &out), argument, "AttnChainDrafts.size is 16");
  REFUSED(attn_verify_chain(side->stream, &drafts, &other), argument, "AttnChainOut.size is");
  bad = drafts, bad.draft_ids = NULL;
  REFUSED(attn_verify_chain(side->stream, &bad, &out), argument, "draft_ids is null, and should have 2 entries");
  bad = drafts, bad.draft_probs.data = NULL;
  REFUSED(attn_verify_chain(side->stream, &bad, &out), argument, "draft_probs.data is null");
  bad = drafts, bad.target_probs.shape[1] = DRAFTS;
  REFUSED(attn_verify_chain(side->stream, &bad, &out), refused, "target_probs has 2 rows");
  bad = drafts, bad.draft_probs.rank = 2;
  REFUSED(attn_verify_chain(side->stream, &bad, &out), refused, "draft_probs");
  bad = drafts, bad.draft_probs.dtype = ATTN_DTYPE_F16;
  REFUSED(attn_verify_chain(side->stream, &bad, &out), refused, "draft_probs is f16");
  bad = drafts, bad.seeds.value = 1, bad.seeds.array = (const uint64_t *)(const void *)drafts.target_probs.data;
  REFUSED(attn_verify_chain(side->stream, &bad, &out), argument, "AttnChainDrafts.seeds has a value and an array");
  other = out, other.emitted = NULL;
  REFUSED(attn_verify_chain(side->stream, &drafts, &other), argument, "AttnChainOut.emitted is null");
  other = out, other.emitted = out.ids + DRAFTS;
  REFUSED(attn_verify_chain(side->stream, &drafts, &other), refused, "AttnChainOut.emitted shares memory with");
  other = out, other.ids = (int32_t *)drafts.target_probs.data;
  REFUSED(attn_verify_chain(side->stream, &drafts, &other), refused, "ids shares memory with target_probs");
  if (!side->is_gpu) {
    bad = drafts, bad.draft_ids = outside;
    REFUSED(attn_verify_chain(side->stream, &bad, &out), refused, "`draft_ids[1]` is 5");
  }
  REFUSED(attn_sampling_prepare_verify(NULL), argument, "the engine is null");
}

static void run_side(Side *side) {
  OK(attn_sampling_prepare_verify(side->engine));
  run_certain_chains(side);
  run_chains(side);
  run_trees(side);
  refuse(side);
}

int main(void) {
  on_both_sides(run_side);
  return 0;
}
