// Addressing: from a request, a packed query row (PackGQA) or a key position to coordinates and to memory, through the
// page table where the cache is paged.
#pragma once
#include "abi/kernel_params.cuh"

// n / d for 0 <= n < 2^31, by multiplication with a precomputed reciprocal.
inline int divide(int n, FastDiv d) {
  return d.magic ? static_cast<int>(__umulhi(static_cast<unsigned>(n), d.magic) >> d.shift) : n;
}

// The fields of a request that only mixed launches need: the segment of keys that its rows attend to. Other launches
// have constants instead.
template <bool MIXED>
struct SegmentFields {
  static constexpr int pass = 0, kv_first = 0, requests = 1;
  static constexpr bool proven = false;
};
template <>
struct SegmentFields<true> {
  int pass;      // token of the segment's first key among the preprocessed keys
  int kv_first;  // position of that key
  int requests;  // number of neighbouring requests that own the rows
  bool proven;   // SHARED_ROWS: no logit is masked
};

// The request that a CTA works on. If several share the rows, it is the first of them.
struct Request : SegmentFields<MIXED> {
  int batch;  // index in the batch
  int qo_len;
  int kv_len;
  int qo_begin;  // first packed query token
  int kv_begin;  // first packed key token
  int memory;    // paged: first entry in the page table; SHARED_ROWS: start of the segment of keys, also of ragged ones
};

template <bool MIXED>
inline SegmentFields<MIXED> segment_fields(const WorkItem& item) {
  if constexpr (MIXED) return {item.pass, item.kv_first, item.requests, item.full != 0};
  return {};
}
template <bool MIXED>
inline SegmentFields<MIXED> segment_fields(const KvSegment& segment) {
  if constexpr (MIXED) return {segment.pass, segment.kv_begin, 1, false};
  return {};
}

// A work item holds every field of its request. A merge holds those that its rows need.
inline Request request_of(const WorkItem& item) {
  return {
      segment_fields<MIXED>(item), item.request, item.qo_len, item.kv_len, item.qo_token, item.kv_token, item.memory};
}
inline Request request_of(const MergeItem& merge) {
  return {{}, merge.request, merge.qo_len, merge.kv_len, merge.qo_token, 0, 0};
}
inline Request request_of(const KvSegment& segment) {
  return {segment_fields<MIXED>(segment), segment.request, 0, segment.kv_len, 0, segment.kv_token, segment.memory};
}

inline Request load_request(const KernelParams& p, int batch) {
  int qo_begin = p.qo_indptr[batch], kv_begin = p.kv_indptr[batch];
  int page = p.page_indptr ? p.page_indptr[batch] : 0;
  return {{}, batch, p.qo_indptr[batch + 1] - qo_begin, p.kv_indptr[batch + 1] - kv_begin, qo_begin, kv_begin, page};
}

// Whether the rows belong to several requests, so that the request must be looked up per row.
inline bool shares_rows(const Request& request) { return SHARED_ROWS && request.requests > 1; }

// Coordinates of a packed row (PackGQA): row r of a request and KV head is query r / group and query head
// kv_head * group + r % group.
inline RowIndex row_index(const KernelParams& p, const Request& request, int kv_head, int packed_row, int query) {
  int group = p.group.divisor;
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
inline RowIndex row_index(const KernelParams& p, const Request& request, int kv_head, int packed_row) {
  return row_index(p, request, kv_head, packed_row, divide(packed_row, p.group));
}

// Consecutive rows of PackGQA: one division for all of them.
struct PackedRows {
  int row, query;

  PackedRows(const KernelParams& p, int first) : row(first), query(divide(first, p.group)) {}

  void advance(const KernelParams& p) { query += ++row == (query + 1) * p.group.divisor; }
};

// The key token of position 0: `kv_token` of a key is this plus its position.
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

// Offset in elements of a row of Q or O.
inline long long row_offset(const Strided& t, const RowIndex& at) {
  return at.qo_token * t.token + at.qo_head * t.head;
}

// The location of a key and its value: a slot of a page, or a token of a ragged tensor (then `page` is 0).
struct KvLocation {
  int page;
  int slot;
};

// Position of a key relative to the first key that `Request::memory` refers to.
inline int position_in_memory(const Request& request, int kv_pos) {
  return SHARED_ROWS ? kv_pos - request.kv_first : kv_pos;
}

// Token of position 0 in a ragged tensor: in the cache, and in the output of the K/V preprocessing kernel.
inline int ragged_base(const Request& request) {
  return SHARED_ROWS ? request.memory - request.kv_first : request.kv_begin;
}
inline int preprocessed_base(const Request& request) {
  return MIXED ? request.pass - request.kv_first : request.kv_begin;
}

template <bool PREPROCESSED>
inline int key_base(const Request& request) {
  return PREPROCESSED ? preprocessed_base(request) : ragged_base(request);
}

// `pages`: the request's row of the page table; unused where keys are ragged.
template <bool PAGED>
inline KvLocation locate_key(const KernelParams& p, const Request& request, const int* pages, int kv_pos) {
  if constexpr (PAGED) {
    int key = position_in_memory(request, kv_pos), page = divide(key, p.page_size);
    return {pages[page], key - page * static_cast<int>(p.page_size.divisor)};
  } else {
    return {0, ragged_base(request) + kv_pos};
  }
}

inline const int* page_table_row(const KernelParams& p, const Request& request) {
  return p.page_indices + request.memory;
}

// The same in two steps, so that decode can overlap the latency of several page look-ups. The first returns the index
// of the page table entry in place of the page, the second reads that entry. A page of -1 stays unread. Prefill uses
// the single step, since two steps spill more registers.
template <bool PAGED>
inline KvLocation locate_page_entry(const KernelParams& p, const Request& request, int kv_pos) {
  if constexpr (PAGED) {
    int key = position_in_memory(request, kv_pos), page = divide(key, p.page_size);
    return {request.memory + page, key - page * static_cast<int>(p.page_size.divisor)};
  } else {
    return {0, ragged_base(request) + kv_pos};
  }
}
template <bool PAGED>
inline KvLocation resolve_page(const KernelParams& p, KvLocation location) {
  return {PAGED && location.page >= 0 ? p.page_indices[location.page] : 0, location.slot};
}

// Offset in elements of a key or value, without that of its head.
template <bool PAGED>
inline long long key_offset(const Strided& t, KvLocation location) {
  return location.slot * t.token + (PAGED ? location.page * t.page : 0);
}
