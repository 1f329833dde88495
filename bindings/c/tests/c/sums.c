// Outputs that merge by addition, and log-sum-exps in base 2, with what they refuse. C11 and C++17.
#include "side.h"

enum { TOKENS = 5, ELEMENTS = TOKENS * ROW, LSES = TOKENS * QO_HEADS };

static AttnTensor floats(void *data, int rank) {
  return tensor(data, ATTN_DTYPE_F32, rank, TOKENS, QO_HEADS, rank == 3 ? DIM : 0, 0);
}

static void run_sums(Side *side) {
  static float a[ELEMENTS], b[ELEMENTS], got[ELEMENTS];
  for (int i = 0; i < ELEMENTS; ++i) a[i] = random_number(), b[i] = random_number();
  AttnTensor of_a = floats(put(side, a, sizeof a), 3), of_b = floats(put(side, b, sizeof b), 3), bad;
  AttnTensor o = floats(put(side, NULL, sizeof a), 3);
  OK(attn_merge_sums(side->stream, &of_a, &of_b, &o));
  get(side, got, o.data, sizeof got);
  for (int i = 0; i < ELEMENTS; ++i) REQUIRE(got[i] == a[i] + b[i]);

  const AttnStatus argument = ATTN_STATUS_INVALID_ARGUMENT, refused = ATTN_STATUS_INVALID_TENSOR;
  REFUSED(attn_merge_sums(NULL, &of_a, &of_b, &o), argument, "the stream is null");
  REFUSED(attn_merge_sums(side->stream, NULL, &of_b, &o), argument, "the tensor a is null");
  REFUSED(attn_merge_sums(side->stream, &of_a, NULL, &o), argument, "the tensor b is null");
  REFUSED(attn_merge_sums(side->stream, &of_a, &of_b, NULL), argument, "the tensor o is null");
  REFUSED(attn_merge_sums(side->stream, &of_a, &of_b, &of_a), refused, "shares memory with");
  bad = of_b, bad.shape[0] = TOKENS - 1;
  REFUSED(attn_merge_sums(side->stream, &of_a, &bad, &o), refused, "b has 4 tokens");
  bad = of_b, bad.dtype = ATTN_DTYPE_BF16;
  REFUSED(attn_merge_sums(side->stream, &of_a, &bad, &o), refused, "b is bf16");
  bad = of_b, bad.data = NULL;
  REFUSED(attn_merge_sums(side->stream, &of_a, &bad, &o), argument, "b.data is null");
}

static void run_bases(Side *side) {
  static float natural[LSES], got[LSES];
  for (int i = 0; i < LSES; ++i) natural[i] = 40.0f * random_number();
  natural[3] = -INFINITY;
  for (int rank = 1; rank <= 2; ++rank) {
    AttnTensor lse = floats(put(side, natural, sizeof natural), 2);
    lse.rank = (uint32_t)rank;
    if (rank == 1) lse.shape[0] = LSES;
    OK(attn_lse_to_base_2(side->stream, &lse));
    get(side, got, lse.data, sizeof got);
    for (int i = 0; i < LSES; ++i) {
      const float want = (float)(natural[i] / log(2.0));
      REQUIRE(got[i] == want || fabsf(got[i] - want) < 1e-5f * fabsf(want));
    }
    OK(attn_lse_from_base_2(side->stream, &lse));
    get(side, got, lse.data, sizeof got);
    for (int i = 0; i < LSES; ++i)
      REQUIRE(got[i] == natural[i] || fabsf(got[i] - natural[i]) < 1e-5f * fabsf(natural[i]));
  }

  AttnTensor lse = floats(put(side, natural, sizeof natural), 2), bad = lse;
  REFUSED(attn_lse_to_base_2(NULL, &lse), ATTN_STATUS_INVALID_ARGUMENT, "the stream is null");
  REFUSED(attn_lse_to_base_2(side->stream, NULL), ATTN_STATUS_INVALID_ARGUMENT, "the log-sum-exp is null");
  REFUSED(attn_lse_from_base_2(side->stream, NULL), ATTN_STATUS_INVALID_ARGUMENT, "the log-sum-exp is null");
  bad.dtype = ATTN_DTYPE_F16;
  REFUSED(attn_lse_to_base_2(side->stream, &bad), ATTN_STATUS_INVALID_TENSOR, "lse is f16");
  bad = lse, bad.rank = 3, bad.shape[2] = 1;
  REFUSED(attn_lse_from_base_2(side->stream, &bad), ATTN_STATUS_INVALID_TENSOR, "lse");
  bad = lse, bad.strides[1] = 1; // a stride of 0 beside it: rows share memory
  REFUSED(attn_lse_to_base_2(side->stream, &bad), ATTN_STATUS_INVALID_TENSOR, "overlap");
}

static void run_side(Side *side) {
  run_sums(side);
  run_bases(side);
}

int main(void) {
  on_both_sides(run_side);
  return 0;
}
