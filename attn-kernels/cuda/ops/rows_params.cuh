// Parameters of the kernels that append rows of K and V to paged pools or gather rows from them.
#pragma once
#include "ops/index.cuh"

// The tensors of keys or of values.
struct RowsPart {
  Strided packed;       // (tokens, heads, dim)
  Strided pool;         // (pages, slots, heads, dim)
  const float* scales;  // [heads]; null: none
  RowTiling share;
  int dim;  // 0: nothing is read or written
  float scale;
  int raw;  // whether bits are copied without conversion
  int pad;
};

struct RowsParams {
  RowsPart part[2];        // gridDim.y of them are used
  const long long* slots;  // [tokens]: page * page_size + slot; null: slots follow from positions
  const int* positions;    // [tokens]
  const int* requests;     // [tokens]
  const int* indptr;       // gather: [requests + 1] prefix sums of keys
  const int* page_indptr;  // [requests + 1]; null: padded rows of `max_pages`
  const int* pages;        // [entries]
  unsigned* status;        // counts skipped tokens; may be null
  long long tokens;
  long long num_pages;  // of the pool
  long long entries;    // of the page table
  int num_requests;
  int max_pages;
  FastDiv page_size;
  int pad;
};
