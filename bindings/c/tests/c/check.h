// How the programs check, and the numbers they check with.
#ifndef CHECK_H
#define CHECK_H

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "attn.h"

#define REQUIRE(condition)                                                                                  \
  do {                                                                                                      \
    if (!(condition)) {                                                                                     \
      const char *why_ = attn_last_error();                                                                 \
      fprintf(stderr, "%s:%d: %s: %s\n", __FILE__, __LINE__, #condition, why_ != NULL ? why_ : "no error"); \
      exit(1);                                                                                              \
    }                                                                                                       \
  } while (0)

#define OK(call) REQUIRE((call) == ATTN_STATUS_OK)

// The call fails with this status, and its text has these words.
#define REFUSED(call, status, words)                                                          \
  do {                                                                                        \
    AttnStatus got_ = (call);                                                                 \
    const char *why_ = attn_last_error();                                                     \
    if (got_ != (status) || why_ == NULL || strstr(why_, words) == NULL) {                    \
      fprintf(stderr, "%s:%d: status %d: %s\n", __FILE__, __LINE__, (int)got_, why_ ? why_ : "no error"); \
      exit(1);                                                                                \
    }                                                                                         \
  } while (0)

// A random number in [-1, 1).
static inline float random_number(void) {
  static uint32_t state = 12345;
  state = state * 1664525u + 1013904223u;
  return (float)(state >> 8) / 8388608.0f - 1.0f;
}

static inline AttnTensor tensor(void *data, AttnDtype dtype, int rank, int64_t a, int64_t b, int64_t c, int64_t d) {
  AttnTensor t;
  memset(&t, 0, sizeof t);
  t.data = data;
  t.dtype = (uint32_t)dtype;
  t.rank = (uint32_t)rank;
  t.shape[0] = a;
  t.shape[1] = b;
  t.shape[2] = c;
  t.shape[3] = d;
  return t;
}

// A batch of requests of one query or more in pages.
static inline AttnBatch paged_batch(size_t requests, const int32_t *qo_indptr, uint32_t page_size, uint32_t num_pages,
                                    const int32_t *page_indptr, const int32_t *page_indices,
                                    const int32_t *last_page_len) {
  AttnBatch batch;
  memset(&batch, 0, sizeof batch);
  batch.size = sizeof batch;
  batch.requests = requests;
  batch.qo_indptr = qo_indptr;
  batch.kind = ATTN_BATCH_KIND_PAGED;
  batch.page_size = page_size;
  batch.num_pages = num_pages;
  batch.page_indptr = page_indptr;
  batch.page_indices = page_indices;
  batch.last_page_len = last_page_len;
  return batch;
}

#endif
