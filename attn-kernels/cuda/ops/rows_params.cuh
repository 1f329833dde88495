// Rows of keys and values between packed tensors and pools: what the host hands over.
#pragma once
#include "ops/index.cuh"

// Keys or values: where from, where to.
struct RowsPart {
  Strided packed;       // (tokens, heads, dim)
  Strided pool;         // (pages, slots, heads, dim)
  const float* scales;  // [heads], null: none
  RowShare share;
  int dim;              // 0: nothing is read or written
  float scale;
  int raw;              // whether bits are copied as they are
  int pad;
};

struct RowsParams {
  RowsPart part[2];       // gridDim.y of them
  const long long* slots; // [tokens]: page * page_size + slot; null: by positions
  const int* positions;   // [tokens]
  const int* requests;    // [tokens]
  const int* indptr;      // [requests + 1] of a gather: sums of keys
  const int* page_indptr; // [requests + 1]; null: rows of `max_pages`
  const int* pages;       // [entries]
  unsigned* status;       // counts tokens that are left out; may be null
  long long tokens;
  long long num_pages;    // of the pool
  long long entries;      // of the page table
  int num_requests;
  int max_pages;
  FastDiv page_size;
  int pad;
};
