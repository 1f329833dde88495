// The request of an index query, the keys that it sees, and where they are.
#pragma once
#include "lang/types.cuh"
#include "ops/slots.cuh"
#include "select/scores_params.cuh"

struct IndexRow {
  int request;      // -1: padding
  int visible;      // keys
  long long first;  // of packed keys
};

// Bisects the prefix sums of queries.
inline int request_of(const IndexScoresParams& p, int token) {
  int requests = p.keys.num_requests;
  if (requests == 0 || token >= p.qo_indptr[requests]) return -1;
  // a decoding batch has one query a request
  if (token < requests && p.qo_indptr[token] == token && p.qo_indptr[token + 1] == token + 1) return token;
  int request = run_of_token(p.qo_indptr + 1, requests, token);
  return token < p.qo_indptr[request] ? -1 : request;
}

inline IndexRow index_row(const IndexScoresParams& p, int token) {
  int request = request_of(p, token);
  if (request < 0) return {-1, 0, 0};
  long long first = p.keys.indptr ? p.keys.indptr[request] : 0;
  int keys = p.keys.indptr ? p.keys.indptr[request + 1] - static_cast<int>(first) : p.keys.positions[request];
  keys = max(keys, 0);
  int visible = keys;
  if (p.causal) visible = keys - p.qo_indptr[request + 1] + token + 1;
  if (p.visible) visible = p.visible[token];
  return {request, max(min(visible, keys), 0), first};
}

// Offset of a key in elements; -1: it is outside of the pool or the page table.
inline long long key_offset(const IndexScoresParams& p, const IndexRow& row, int position) {
  const Strided& pool = p.keys.part[0].pool;
  if (p.keys.indptr) {
    long long token = row.first + position;
    return 0 <= token && token < p.keys.tokens ? token * pool.token : -1;
  }
  PoolSlot slot = slot_of_position(p.keys, row.request, position);
  return slot.page < 0 ? -1 : pool_offset(pool, slot, 0);
}
