// From logical places (request, packed row, key) to index words and memory.
#pragma once
#include "abi/kernel_params.cuh"

// n / d, for 0 <= n < 2^31.
inline int divide(int n, FastDiv d) {
  return d.magic ? static_cast<int>(__umulhi(static_cast<unsigned>(n), d.magic) >> d.shift) : n;
}

// What a mixed launch knows besides of rows and keys at hand; in others there is nothing to know.
template <bool MIXED>
struct SegmentOf {
  static constexpr int pass = 0, kv_first = 0, requests = 1;
  static constexpr bool proven = false;
};
template <>
struct SegmentOf<true> {
  int pass;      // token of the segment's first key among rewritten ones
  int kv_first;  // position of that key
  int requests;  // that rows are of: neighbours
  bool proven;   // SHARED_ROWS: every logit counts
};

// The request that a CTA works on; of several, the first.
struct Request : SegmentOf<MIXED> {
  int batch;  // its number
  int qo_len;
  int kv_len;
  int qo_begin;  // first packed query token
  int kv_begin;  // first packed key token
  int memory;    // paged: first page, of the page table; SHARED_ROWS: of the segment of keys, ragged ones too
};

template <bool MIXED>
inline SegmentOf<MIXED> segment_of(const MixedItem& item) {
  if constexpr (MIXED) return {item.pass, item.kv_first, item.requests, item.full != 0};
  return {};
}
template <bool MIXED>
inline SegmentOf<MIXED> segment_of(const MixedSegment& segment) {
  if constexpr (MIXED) return {segment.pass, segment.kv_begin, 1, false};
  return {};
}

// Work says of its request all that there is to say; a merge, what rows ask.
inline Request request_of(const WorkItem& item) {
  return {{}, item.request, item.qo_len, item.kv_len, item.qo_token, item.kv_token, item.page};
}
inline Request request_of(const MergeItem& merge) { return {{}, merge.request, merge.qo_len, merge.kv_len, merge.qo_token, 0, 0}; }
inline Request request_of(const MixedItem& item) {
  return {segment_of<MIXED>(item), item.request, item.qo_len, item.kv_len, item.qo_token, item.kv_token, item.memory};
}
inline Request request_of(const MixedSegment& segment) {
  return {segment_of<MIXED>(segment), segment.request, 0, segment.kv_len, 0, segment.kv_token, segment.memory};
}
inline Request request_of(const MixedMerge& merge) { return {{}, merge.request, merge.qo_len, merge.kv_len, merge.qo_token, 0, 0}; }

inline Request load_request(const KernelParams& p, int batch) {
  int qo_begin = p.qo_indptr[batch], kv_begin = p.kv_indptr[batch];
  int page = p.page_indptr ? p.page_indptr[batch] : 0;
  return {{}, batch, p.qo_indptr[batch + 1] - qo_begin, p.kv_indptr[batch + 1] - kv_begin, qo_begin, kv_begin, page};
}

// Whether rows are of several requests, so that each has to be asked whose it is.
inline bool shares_rows(const Request& request) { return SHARED_ROWS && request.requests > 1; }

// Rows are packed: row r of a request and KV head is query r / group, query head kv_head * group + r % group.
inline RowIndex row_index(const KernelParams& p, const Request& request, int kv_head, int packed_row) {
  int group = p.group.divisor;
  int query = divide(packed_row, p.group);
  RowIndex at;
  at.batch = request.batch;
  at.qo_row = query;
  at.qo_pos = query + request.kv_len - request.qo_len;
  at.qo_token = request.qo_begin + query;
  at.qo_head = kv_head * group + packed_row - query * group;
  at.kv_head = kv_head;
  at.qo_len = request.qo_len;
  at.kv_len = request.kv_len;
  if constexpr (SHARED_ROWS) {
    if (request.requests > 1) {
      int batch = mixed(p).request_of_query[at.qo_token], begin = p.qo_indptr[batch];
      at.batch = batch;
      at.qo_row = at.qo_token - begin;
      at.qo_len = p.qo_indptr[batch + 1] - begin;
      at.kv_len = p.kv_indptr[batch + 1] - p.kv_indptr[batch];
      at.qo_pos = at.qo_row + at.kv_len - at.qo_len;
    }
  }
  return at;
}

// Index word of position 0 of a row's keys: what key tokens are counted from.
inline int first_key_token(const KernelParams& p, const Request& request, const RowIndex& at) {
  return shares_rows(request) ? p.kv_indptr[at.batch] : request.kv_begin;
}

inline KvIndex kv_index(const Request& request, int kv_head, int kv_pos) {
  KvIndex at;
  at.batch = request.batch;
  at.kv_pos = kv_pos;
  at.kv_token = request.kv_begin + kv_pos;
  at.kv_head = kv_head;
  at.kv_len = request.kv_len;
  return at;
}

// In elements, where the row of a query or output begins.
inline long long row_offset(const Strided& t, const RowIndex& at) { return at.qo_token * t.token + at.qo_head * t.head; }

// Where a key lies, and its value with it: a slot of a page, or a token of a ragged tensor.
struct KeyPlace {
  int page;
  int slot;
};

// Position of a key among those whose memory begins with `Request::memory`.
inline int in_memory(const Request& request, int kv_pos) { return SHARED_ROWS ? kv_pos - request.kv_first : kv_pos; }

// What positions of keys are added to where they are tokens of a ragged tensor: of the cache, and of rewritten keys.
inline int ragged_base(const Request& request) { return SHARED_ROWS ? request.memory - request.kv_first : request.kv_begin; }
inline int rewritten_base(const Request& request) { return MIXED ? request.pass - request.kv_first : request.kv_begin; }

// The token of position 0 of what is not in pages.
template <bool REWRITTEN>
inline int key_base(const Request& request) { return REWRITTEN ? rewritten_base(request) : ragged_base(request); }

// `pages`: the request's row of the page table, if there is one.
template <bool PAGED>
inline KeyPlace find_key(const KernelParams& p, const Request& request, const int* pages, int kv_pos) {
  if constexpr (PAGED) {
    int key = in_memory(request, kv_pos), page = divide(key, p.page_size);
    return {pages[page], key - page * static_cast<int>(p.page_size.divisor)};
  } else {
    return {0, ragged_base(request) + kv_pos};
  }
}

inline const int* page_row(const KernelParams& p, const Request& request) {
  return p.page_indices + request.memory;
}

// The same in two steps, for decode, which looks up several at a time: first, in place of the page, its entry in the page table; and then
// what that says. There is no page -1. (Prefill keeps the one step: in two it spills more.)
template <bool PAGED>
inline KeyPlace page_of_key(const KernelParams& p, const Request& request, int kv_pos) {
  if constexpr (PAGED) {
    int key = in_memory(request, kv_pos), page = divide(key, p.page_size);
    return {request.memory + page, key - page * static_cast<int>(p.page_size.divisor)};
  } else {
    return {0, ragged_base(request) + kv_pos};
  }
}
template <bool PAGED>
inline KeyPlace look_up(const KernelParams& p, KeyPlace place) {
  return {PAGED && place.page >= 0 ? p.page_indices[place.page] : 0, place.slot};
}

// In elements, without the head.
template <bool PAGED>
inline long long key_offset(const Strided& t, KeyPlace place) {
  return place.slot * t.token + (PAGED ? place.page * t.page : 0);
}
