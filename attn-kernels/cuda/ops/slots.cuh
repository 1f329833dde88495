// Finds the pool slot of a token, by a slot mapping or by position through the page table. Every index is checked;
// tokens with an invalid one are skipped and counted.
#pragma once
#include "memory/run_of_token.cuh"
#include "ops/index.cuh"
#include "ops/rows_params.cuh"

struct PoolSlot {
  long long page;  // -1: none, the token is skipped
  int slot;
  bool invalid;  // the token is skipped because an index is out of range
};

constexpr PoolSlot NO_SLOT = {-1, 0, false};
constexpr PoolSlot INVALID_SLOT = {-1, 0, true};

inline PoolSlot slot_of_position(const RowsParams& p, int request, int position) {
  if (request < 0 || position < 0) return NO_SLOT;
  if (request >= p.num_requests) return INVALID_SLOT;
  DivMod at = divmod(position, p.page_size);
  long long page = at.quotient, first, end;
  if (p.page_indptr) {
    first = p.page_indptr[request], end = p.page_indptr[request + 1];
  } else {
    first = static_cast<long long>(request) * p.max_pages, end = first + p.max_pages;
  }
  if (first < 0 || first + page >= end || first + page >= p.entries) return INVALID_SLOT;
  int in_pool = p.pages[first + page];
  if (in_pool < 0 || in_pool >= p.num_pages) return INVALID_SLOT;
  return {in_pool, at.remainder, false};
}

// The slot of a slot mapping entry, page * page_size + slot.
inline PoolSlot slot_of_flat_index(const RowsParams& p, long long slot) {
  if (slot < 0) return NO_SLOT;
  DivMod at = divmod(slot, p.page_size);
  if (at.quotient >= static_cast<u64>(p.num_pages)) return INVALID_SLOT;
  return {static_cast<long long>(at.quotient), at.remainder, false};
}

// The slot that an append writes.
inline PoolSlot append_slot(const RowsParams& p, long long token) {
  return p.slots ? slot_of_flat_index(p, p.slots[token]) : slot_of_position(p, p.requests[token], p.positions[token]);
}

// The slot that a gather reads: bisects `indptr` for the token's request.
inline PoolSlot gather_slot(const RowsParams& p, long long token) {
  if (p.num_requests == 0 || token >= p.indptr[p.num_requests]) return NO_SLOT;
  int request = run_of_token(p.indptr + 1, p.num_requests, token);
  long long position = token - p.indptr[request];
  return position < 0 ? INVALID_SLOT : slot_of_position(p, request, static_cast<int>(position));
}

// Counts the keys of a gather that exceed the capacity of the packed tensor. Called by one thread.
inline void count_past_capacity(const RowsParams& p) {
  if (!p.status || p.num_requests == 0) return;
  long long past = p.indptr[p.num_requests] - p.tokens;
  if (past > 0) count_skipped(p.status, static_cast<unsigned>(past));
}

inline PoolSlot pool_slot(const RowsParams& p, long long token) {
  if constexpr (ROWS_TO_POOL)
    return append_slot(p, token);
  else
    return gather_slot(p, token);
}

// Offsets in elements of a row.
inline long long pool_offset(const Strided& pool, PoolSlot at, int head) {
  return at.page * pool.page + at.slot * pool.token + head * pool.head;
}
inline long long packed_offset(const Strided& packed, long long token, int head) {
  return token * packed.token + head * packed.head;
}

// The factor of a head's rows: a gather multiplies by the scale, an append divides by it.
inline float row_factor(const RowsPart& part, int head) {
  float scale = part.scales ? part.scale * part.scales[head] : part.scale;
  return ROWS_TO_POOL ? __fdiv_rn(1.f, scale) : scale;
}
