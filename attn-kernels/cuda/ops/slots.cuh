// Where a token's rows are in the pool. Every number is checked: what is outside is left out, and counted.
#pragma once
#include "ops/rows_params.cuh"

struct PoolPlace {
  long long page;  // -1: nowhere
  int slot;
  bool bad;        // it should have been somewhere
};

constexpr PoolPlace NOWHERE = {-1, 0, false};
constexpr PoolPlace OUTSIDE = {-1, 0, true};

inline PoolPlace place_of_position(const RowsParams& p, int request, int position) {
  if (request < 0 || position < 0) return NOWHERE;
  if (request >= p.num_requests) return OUTSIDE;
  Split at = split(position, p.page_size);
  long long page = at.quotient, first, end;
  if (p.page_indptr) {
    first = p.page_indptr[request], end = p.page_indptr[request + 1];
  } else {
    first = static_cast<long long>(request) * p.max_pages, end = first + p.max_pages;
  }
  if (first < 0 || first + page >= end || first + page >= p.entries) return OUTSIDE;
  int in_pool = p.pages[first + page];
  if (in_pool < 0 || in_pool >= p.num_pages) return OUTSIDE;
  return {in_pool, at.rest, false};
}

// By a slot.
inline PoolPlace place_of_slot(const RowsParams& p, long long slot) {
  if (slot < 0) return NOWHERE;
  Split at = split(slot, p.page_size);
  if (at.quotient >= static_cast<u64>(p.num_pages)) return OUTSIDE;
  return {static_cast<long long>(at.quotient), at.rest, false};
}

// Of an append.
inline PoolPlace place_of_new(const RowsParams& p, long long token) {
  return p.slots ? place_of_slot(p, p.slots[token]) : place_of_position(p, p.requests[token], p.positions[token]);
}

// Of a gather: the request whose keys the token is among.
inline PoolPlace place_of_kept(const RowsParams& p, long long token) {
  if (p.num_requests == 0 || token >= p.indptr[p.num_requests]) return NOWHERE;
  int low = 0, high = p.num_requests - 1;
  while (low < high) {
    int middle = (low + high) / 2;
    if (token < p.indptr[middle + 1])
      high = middle;
    else
      low = middle + 1;
  }
  long long position = token - p.indptr[low];
  return position < 0 ? OUTSIDE : place_of_position(p, low, static_cast<int>(position));
}

// Of a gather: keys that the packed rows have no room for. By one thread.
inline void count_past_room(const RowsParams& p) {
  if (!p.status || p.num_requests == 0) return;
  long long past = p.indptr[p.num_requests] - p.tokens;
  if (past > 0) count_in(p.status, static_cast<unsigned>(past));
}

inline PoolPlace place_of(const RowsParams& p, long long token) {
  if constexpr (ROWS_TO_POOL)
    return place_of_new(p, token);
  else
    return place_of_kept(p, token);
}

// In elements, where a row begins.
inline long long pool_offset(const Strided& pool, PoolPlace place, int head) {
  return place.page * pool.page + place.slot * pool.token + head * pool.head;
}
inline long long packed_offset(const Strided& packed, long long token, int head) { return token * packed.token + head * packed.head; }

// What rows of a head are multiplied by: an append divides by its scale.
inline float row_factor(const RowsPart& part, int head) {
  float scale = part.scales ? part.scale * part.scales[head] : part.scale;
  return ROWS_TO_POOL ? __fdiv_rn(1.f, scale) : scale;
}
