// Tokens of logits and of probabilities, beside what the program computes itself in double: the likeliest, filters, a
// mask, penalties, log-probabilities, frequencies of many draws; then calls that must fail. C11 and C++17.
#include "side.h"

enum { ROWS = 4, VOCAB = 100, WORDS = (VOCAB + 31) / 32, TOP = 3, FEW = 8, DRAWS = 20000 };

static float logits[ROWS][VOCAB];

static AttnTensor floats(void *data, int rows, int vocab) {
  return tensor(data, ATTN_DTYPE_F32, 2, rows, vocab, 0, 0);
}

static AttnSampling params_of(float temperature) {
  AttnSampling params;
  memset(&params, 0, sizeof params);
  params.size = sizeof params;
  params.temperature.value = temperature;
  return params;
}

static AttnSampleOut out_of(Side *side, int rows) {
  AttnSampleOut out;
  memset(&out, 0, sizeof out);
  out.size = sizeof out;
  out.ids = (int32_t *)put(side, NULL, (size_t)rows * sizeof(int32_t));
  out.positions = (int64_t *)put(side, NULL, (size_t)rows * sizeof(int64_t));
  return out;
}

// How many tokens of a row are likelier: the lower id of equal ones is.
static int rank_of(const float *row, int vocab, int token) {
  int rank = 0;
  for (int i = 0; i < vocab; ++i) rank += row[i] > row[token] || (row[i] == row[token] && i < token);
  return rank;
}

static int ranked(const float *row, int vocab, int rank) {
  int token = 0;
  while (rank_of(row, vocab, token) != rank) ++token;
  return token;
}

static double log_sum_exp(const float *row, int vocab, double temperature) {
  double sum = 0;
  for (int i = 0; i < vocab; ++i) sum += exp(row[i] / temperature);
  return log(sum);
}

// The likeliest token of each row, by a temperature, by top-k, and among those that a mask allows.
static void run_likeliest(Side *side) {
  AttnTensor of = floats(put(side, logits, sizeof logits), ROWS, VOCAB);
  for (int how = 0; how < 4; ++how) {
    AttnSampling params = params_of(how == 0 ? -1.0f : how == 1 ? 0.7f : 0.0f);
    static const float zeros[ROWS] = {0};
    static const int32_t ones[ROWS] = {1, 1, 1, 1};
    uint32_t mask[ROWS][WORDS];
    memset(mask, 0xff, sizeof mask);
    if (how == 1) params.top_k.array = (const int32_t *)put(side, ones, sizeof ones);
    if (how >= 2) params.temperature.array = (const float *)put(side, zeros, sizeof zeros);
    if (how == 3) {
      for (int row = 0; row < 2; ++row) {
        const int best = ranked(logits[row], VOCAB, 0);
        mask[row][best / 32] &= ~(UINT32_C(1) << best % 32);
      }
      memset(mask[2], 0, sizeof mask[2]); // none
      params.token_mask = (const uint32_t *)put(side, mask, sizeof mask);
    }
    AttnSampleOut out = out_of(side, ROWS);
    out.log_probs = (float *)put(side, NULL, ROWS * sizeof(float));
    out.top_ids = (int32_t *)put(side, NULL, ROWS * TOP * sizeof(int32_t));
    out.top_log_probs = (float *)put(side, NULL, ROWS * TOP * sizeof(float));
    out.top_count = TOP;
    for (int step = 1; step <= 2; ++step) {
      OK(attn_sample(side->stream, &of, &params, &out));
      int32_t ids[ROWS], top[ROWS][TOP];
      int64_t positions[ROWS];
      float of_ids[ROWS], of_top[ROWS][TOP];
      get(side, ids, out.ids, sizeof ids);
      get(side, positions, out.positions, sizeof positions);
      get(side, of_ids, out.log_probs, sizeof of_ids);
      get(side, top, out.top_ids, sizeof top);
      get(side, of_top, out.top_log_probs, sizeof of_top);
      for (int row = 0; row < ROWS; ++row) {
        const int is_masked = how == 3 && row < 2, want = ranked(logits[row], VOCAB, is_masked);
        REQUIRE(ids[row] == (how == 3 && row == 2 ? -1 : want) && positions[row] == step);
        if (how != 1) continue; // log-probabilities are those at the temperature
        const double sum = log_sum_exp(logits[row], VOCAB, 0.7);
        REQUIRE(fabs(of_ids[row] - (logits[row][want] / 0.7 - sum)) < 1e-4);
        for (int i = 0; i < TOP; ++i) {
          REQUIRE(top[row][i] == ranked(logits[row], VOCAB, i));
          REQUIRE(fabs(of_top[row][i] - (logits[row][top[row][i]] / 0.7 - sum)) < 1e-4);
        }
      }
    }
  }
}

// What filters keep: `k` tokens, then the likeliest of share `p` of these, divided by their sum.
static void kept_of(const float *row, int k, double p, double want[VOCAB]) {
  double sum = 0, kept = 0, before = 0;
  if (k == 0) k = VOCAB;
  for (int rank = 0; rank < k; ++rank) sum += exp(row[ranked(row, VOCAB, rank)]);
  for (int i = 0; i < VOCAB; ++i) want[i] = 0;
  for (int rank = 0; rank < k && before < p * sum; ++rank) {
    const int token = ranked(row, VOCAB, rank);
    before += want[token] = exp(row[token]);
  }
  for (int i = 0; i < VOCAB; ++i) kept += want[i];
  for (int i = 0; i < VOCAB; ++i) want[i] /= kept;
}

static void run_filters(Side *side) {
  static const int32_t top_k[ROWS] = {5, 1, 0, 40};
  static const float top_p[ROWS] = {1.0f, 0.3f, 0.6f, 0.5f};
  static float probs[ROWS][VOCAB], got[ROWS][VOCAB];
  AttnTensor of = floats(put(side, logits, sizeof logits), ROWS, VOCAB);
  AttnTensor of_probs = floats(put(side, NULL, sizeof probs), ROWS, VOCAB);
  AttnTensor to = floats(put(side, NULL, sizeof got), ROWS, VOCAB);

  // a softmax
  AttnSampling params = params_of(0.7f);
  OK(attn_softmax(side->stream, &of, &params, &of_probs));
  get(side, probs, of_probs.data, sizeof probs);
  for (int row = 0; row < ROWS; ++row)
    for (int i = 0; i < VOCAB; ++i)
      REQUIRE(fabs(probs[row][i] - exp(logits[row][i] / 0.7 - log_sum_exp(logits[row], VOCAB, 0.7))) < 1e-5);

  params = params_of(1);
  OK(attn_softmax(side->stream, &of, &params, &of_probs));
  params.top_k.array = (const int32_t *)put(side, top_k, sizeof top_k);
  params.top_p.array = (const float *)put(side, top_p, sizeof top_p);
  AttnSampling of_shares = params;
  of_shares.temperature.value = 0;
  for (int what = 0; what < 3; ++what) {
    if (what == 0) OK(attn_softmax(side->stream, &of, &params, &to));
    if (what == 1) OK(attn_renorm_probs(side->stream, &of_probs, &of_shares, &to));
    if (what == 2) OK(attn_mask_logits(side->stream, &of, &params, &to));
    get(side, got, to.data, sizeof got);
    for (int row = 0; row < ROWS; ++row) {
      double want[VOCAB];
      kept_of(logits[row], top_k[row], top_p[row], want);
      for (int i = 0; i < VOCAB; ++i) {
        if (what == 2)
          REQUIRE(got[row][i] == (want[i] > 0 ? logits[row][i] : -INFINITY));
        else
          REQUIRE((got[row][i] > 0) == (want[i] > 0) && fabs(got[row][i] - want[i]) < 1e-5);
      }
    }
  }

  // rows by indices, and a share of the likeliest
  static const int32_t indices[2] = {3, 1};
  params = params_of(1);
  params.indices = (const int32_t *)put(side, indices, sizeof indices);
  params.rows = 2;
  params.min_p.value = 0.25f;
  to.shape[0] = 2;
  OK(attn_mask_logits(side->stream, &of, &params, &to));
  get(side, got, to.data, sizeof got);
  for (int row = 0; row < 2; ++row) {
    const float *from = logits[indices[row]];
    for (int i = 0; i < VOCAB; ++i) {
      const int is_kept = exp(from[i] - from[ranked(from, VOCAB, 0)]) >= 0.25;
      REQUIRE(got[row][i] == (is_kept ? from[i] : -INFINITY));
    }
  }
}

// A large penalty for what was drawn: rows fall in order. Another divides what is in the prompt.
static void run_penalties(Side *side) {
  static uint32_t counts[ROWS][VOCAB];
  AttnTensor of = floats(put(side, logits, sizeof logits), ROWS, VOCAB);
  AttnSampling params = params_of(-1);
  params.presence.value = 1000;
  AttnSampleOut out = out_of(side, ROWS);
  REFUSED(attn_sample(side->stream, &of, &params, &out), ATTN_STATUS_INVALID_TENSOR, "`penalties` needs `counts`");
  out.counts = (uint32_t *)put(side, NULL, sizeof counts);
  int32_t ids[ROWS];
  for (int step = 0; step < 5; ++step) {
    OK(attn_sample(side->stream, &of, &params, &out));
    get(side, ids, out.ids, sizeof ids);
    for (int row = 0; row < ROWS; ++row) REQUIRE(ids[row] == ranked(logits[row], VOCAB, step));
  }
  get(side, counts, out.counts, sizeof counts);
  for (int row = 0; row < ROWS; ++row)
    for (int i = 0; i < VOCAB; ++i) REQUIRE(counts[row][i] == (uint32_t)(rank_of(logits[row], VOCAB, i) < 5));

  static const float repetition[ROWS] = {1, 1e6f, 1, 1e6f};
  memset(counts, 0, sizeof counts);
  for (int row = 0; row < ROWS; ++row) counts[row][ranked(logits[row], VOCAB, 0)] = UINT32_C(1) << 31;
  set(side, out.counts, counts, sizeof counts);
  params.presence.value = 0;
  params.repetition.array = (const float *)put(side, repetition, sizeof repetition);
  OK(attn_sample(side->stream, &of, &params, &out));
  get(side, ids, out.ids, sizeof ids);
  for (int row = 0; row < ROWS; ++row) REQUIRE(ids[row] == ranked(logits[row], VOCAB, repetition[row] > 1));
}

// Many draws from one row, each with a seed of its own, are as frequent as its tokens are probable. The same seeds and
// positions draw the same tokens.
static void run_draws(Side *side) {
  static const float row[FEW] = {0.5f, -1.0f, 1.2f, 0.0f, -0.4f, 1.0f, -2.0f, 0.1f};
  static int32_t indices[DRAWS], ids[DRAWS], again[DRAWS];
  static uint64_t seeds[DRAWS];
  static float probs[DRAWS][FEW];
  float shares[FEW];
  double want[FEW], sum = 0;
  for (int i = 0; i < DRAWS; ++i) seeds[i] = UINT64_C(0x9e3779b97f4a7c15) * (uint64_t)(i + 1);
  for (int i = 0; i < FEW; ++i) sum += want[i] = rank_of(row, FEW, i) < 5 ? exp(row[i]) : 0;
  for (int i = 0; i < FEW; ++i) shares[i] = (float)exp(row[i]), want[i] /= sum;
  AttnTensor of_row = floats(put(side, row, sizeof row), 1, FEW);
  AttnTensor of_shares = floats(put(side, shares, sizeof shares), 1, FEW);
  AttnSampling params = params_of(1), without;
  params.indices = (const int32_t *)put(side, indices, sizeof indices);
  params.rows = DRAWS;
  params.seeds.array = (const uint64_t *)put(side, seeds, sizeof seeds);
  params.top_k.value = 5;
  without = params;
  without.temperature.value = 0;
  for (int of_probs = 0; of_probs < 2; ++of_probs) {
    AttnSampleOut out = out_of(side, DRAWS), same = out_of(side, DRAWS);
    out.probs = floats(put(side, NULL, sizeof probs), DRAWS, FEW);
    AttnSampleOut *const outs[2] = {&out, &same};
    for (int i = 0; i < 2; ++i) {
      if (of_probs)
        OK(attn_sample_probs(side->stream, &of_shares, &without, outs[i]));
      else
        OK(attn_sample(side->stream, &of_row, &params, outs[i]));
    }
    get(side, ids, out.ids, sizeof ids);
    get(side, again, same.ids, sizeof again);
    get(side, probs, out.probs.data, sizeof probs);
    REQUIRE(memcmp(ids, again, sizeof ids) == 0);
    int drawn[FEW] = {0};
    for (int i = 0; i < DRAWS; ++i) {
      REQUIRE(ids[i] >= 0 && ids[i] < FEW);
      ++drawn[ids[i]];
      for (int t = 0; t < FEW; ++t) REQUIRE(fabs(probs[i][t] - want[t]) < 1e-5);
    }
    for (int t = 0; t < FEW; ++t)
      REQUIRE(fabs(drawn[t] - DRAWS * want[t]) <= 5 * sqrt(DRAWS * want[t] * (1 - want[t])));
  }
}

static void refuse(Side *side) {
  const AttnStatus argument = ATTN_STATUS_INVALID_ARGUMENT, refused = ATTN_STATUS_INVALID_TENSOR;
  AttnStream *stream = side->stream;
  AttnTensor of = floats(put(side, logits, sizeof logits), ROWS, VOCAB), to = of, bad = of;
  to.data = put(side, NULL, 2 * sizeof logits);
  AttnSampling good = params_of(1), params = good;
  AttnSampleOut out = out_of(side, ROWS), other = out;
  REFUSED(attn_sample(NULL, &of, &good, &out), argument, "the stream is null");
  REFUSED(attn_sample(stream, NULL, &good, &out), argument, "the logits is null");
  REFUSED(attn_sample_probs(stream, NULL, &good, &out), argument, "the probs is null");
  REFUSED(attn_sample(stream, &of, NULL, &out), argument, "AttnSampling is null");
  REFUSED(attn_sample(stream, &of, &good, NULL), argument, "AttnSampleOut is null");
  REFUSED(attn_softmax(stream, &of, &good, NULL), argument, "the tensor out is null");
  REFUSED(attn_mask_logits(stream, NULL, &good, &to), argument, "the logits is null");
  REFUSED(attn_renorm_probs(stream, &of, NULL, &to), argument, "AttnSampling is null");
  params.size = 8;
  REFUSED(attn_sample(stream, &of, &params, &out), argument, "AttnSampling.size is 8");
  other.size += 1;
  REFUSED(attn_sample(stream, &of, &good, &other), argument, "AttnSampleOut.size is");
  params = good, params.order = 2;
  REFUSED(attn_softmax(stream, &of, &params, &to), argument, "AttnSampling.order is 2");
  params = good, params.log_probs = 2;
  REFUSED(attn_softmax(stream, &of, &params, &to), argument, "AttnSampling.log_probs is 2");
  params = good, params.temperature.value = 0;
  REFUSED(attn_sample(stream, &of, &params, &out), argument, "AttnSampling.temperature is 0");
  params = good, params.temperature.value = 0.5f;
  REFUSED(attn_sample_probs(stream, &of, &params, &out), refused, "`temperature` is for logits");
  params = good, params.top_p.array = (const float *)of.data, params.top_p.value = 0.5f;
  REFUSED(attn_softmax(stream, &of, &params, &to), argument, "AttnSampling.top_p has a value and an array");
  params = good, params.seeds.array = (const uint64_t *)(const void *)((const char *)of.data + 4);
  REFUSED(attn_sample(stream, &of, &params, &out), argument, "AttnSampling.seeds is at no multiple of 8");
  params = good, params.rows = 3;
  REFUSED(attn_sample(stream, &of, &params, &out), argument, "AttnSampling.indices is null, and should have 3 entries");
  params = good, params.presence.value = 1;
  REFUSED(attn_softmax(stream, &of, &params, &to), refused, "`penalties` needs `counts`");
  other = out, other.ids = NULL;
  REFUSED(attn_sample(stream, &of, &good, &other), argument, "AttnSampleOut.ids is null, and should have 4 entries");
  other = out, other.positions = NULL;
  REFUSED(attn_sample(stream, &of, &good, &other), argument, "AttnSampleOut.positions is null");
  other = out, other.top_count = 2;
  REFUSED(attn_sample(stream, &of, &good, &other), argument, "AttnSampleOut.top_ids is null");
  other.top_ids = (int32_t *)to.data, other.top_log_probs = (float *)to.data + ROWS * 65, other.top_count = 65;
  REFUSED(attn_sample(stream, &of, &good, &other), refused, "`top.count` is 65");
  other.top_count = 0;
  REFUSED(attn_sample(stream, &of, &good, &other), refused, "`top.count` is 0");
  // what is written is not read or written elsewhere
  other = out, other.log_probs = (float *)(void *)((char *)out.ids + 4);
  REFUSED(attn_sample(stream, &of, &good, &other), refused, "log_probs shares memory with AttnSampleOut.ids");
  other = out, other.probs = of;
  REFUSED(attn_sample(stream, &of, &good, &other), refused, "AttnSampleOut.probs shares memory with logits");
  params = good, params.top_k.array = out.ids;
  REFUSED(attn_sample(stream, &of, &params, &out), refused, "AttnSampleOut.ids shares memory with AttnSampling.top_k");
  REFUSED(attn_softmax(stream, &of, &good, &of), refused, "out shares memory with logits");
  // tensors of other types and shapes
  bad = of, bad.dtype = ATTN_DTYPE_E4M3;
  REFUSED(attn_sample(stream, &bad, &good, &out), refused, "logits is e4m3");
  bad = of, bad.rank = 1;
  REFUSED(attn_softmax(stream, &bad, &good, &to), refused, "logits");
  bad = to, bad.shape[1] = VOCAB - 1;
  REFUSED(attn_softmax(stream, &of, &good, &bad), refused, "out has 99 tokens");
  REFUSED(attn_sampling_prepare(NULL, ATTN_DTYPE_F32), argument, "the engine is null");
  REFUSED(attn_sampling_prepare(side->engine, ATTN_DTYPE_E4M3), argument, "is 3, and its values are 0 to 2");
  REFUSED(attn_sampling_prepare_probs(NULL, ATTN_DTYPE_F32), argument, "the engine is null");
  REFUSED(attn_sampling_prepare_probs(side->engine, 77), argument, "is 77");
  if (side->is_gpu) {
    static const uint64_t seeds[ROWS] = {1, 2, 3, 4};
    params = good, params.seeds.array = seeds;
    REFUSED(attn_sample(stream, &of, &params, &out), refused, "AttnSampling.seeds is at");
  }
}

static void run_side(Side *side) {
  OK(attn_sampling_prepare(side->engine, ATTN_DTYPE_F32));
  OK(attn_sampling_prepare_probs(side->engine, ATTN_DTYPE_F32));
  run_likeliest(side);
  run_filters(side);
  run_penalties(side);
  run_draws(side);
  refuse(side);
}

int main(void) {
  for (int row = 0; row < ROWS; ++row)
    for (int i = 0; i < VOCAB; ++i) logits[row][i] = 4.0f * random_number();
  on_both_sides(run_side);
  return 0;
}
