// Reads the lengths of a batch. Positions come from prefix sums over the requests; lengths are checked on the way.
#pragma once
#include "lang/coordinates.cuh"

#include "memory/address.cuh"
#include "planner/memory.cuh"

// The first fault that a thread found.
struct BatchFault {
  Fault code = Fault::None;
  int index = 0, value = 0, other = 0;

  void note(bool wrong, Fault what, int at, int found, int before = 0) {
    if (wrong && code == Fault::None) *this = {what, at, found, before};
  }
};

inline bool has_pages(const PlanParams& p) { return p.page_indptr || p.page_stride >= 0; }

inline int ceil_divide(int n, FastDiv d) { return n > 0 ? divide(n - 1, d) + 1 : 0; }

// The lengths of a request as they are planned. An invalid request has no queries and no keys.
struct RequestLengths {
  int qo_token = 0, queries = 0, keys = 0, page = 0;
};

// The fault of a request that is known to be invalid.
inline BatchFault find_fault(const PlanParams& p, int request, int token, int token_end, int keys, int page,
                             int page_end) {
  BatchFault fault;
  fault.note(request == 0 && token != 0, Fault::QoStart, 0, token);
  fault.note(token < 0 || token_end < token, Fault::QoOrder, request + 1, token_end, token);
  fault.note(token_end > p.max_qo_tokens, Fault::QoTokens, request, token_end);
  if (fault.code != Fault::None) return fault;
  fault.note(token_end - token > p.max_queries, Fault::RequestRows, request, token_end - token);
  fault.note(keys < 0, Fault::KvLen, request, keys);
  fault.note(keys > p.max_kv_tokens, Fault::KvTokens, request, keys);
  fault.note(request == 0 && page != 0, Fault::PageStart, 0, page);
  fault.note(page < 0 || page_end < page, Fault::PageOrder, request + 1, page_end, page);
  fault.note(p.page_indptr && page_end > p.max_page_entries, Fault::PageCapacity, request, page_end);
  fault.note(true, Fault::FewPages, request, page_end - page, keys);
  return fault;
}

inline RequestLengths read_request(const PlanParams& p, int request, BatchFault& fault) {
  int token = p.qo_indptr[request], token_end = p.qo_indptr[request + 1], keys = p.kv_lens[request];
  int page = 0, page_end = 0;
  if (p.page_indptr) page = p.page_indptr[request], page_end = p.page_indptr[request + 1];
  if (p.page_stride >= 0) page_end = static_cast<int>(min(p.page_stride, 0x7fffffffll));
  auto within = [](int value, int limit) { return static_cast<unsigned>(value) <= static_cast<unsigned>(limit); };
  bool sound = within(token, token_end) && within(token_end, p.max_qo_tokens) && token_end - token <= p.max_queries &&
               within(keys, p.max_kv_tokens) && (request > 0 || (token == 0 && page == 0));
  if (p.page_indptr) sound = sound && within(page, page_end) && within(page_end, p.max_page_entries);
  if (has_pages(p)) sound = sound && ceil_divide(keys, p.page_size) <= page_end - page;
  if (sound) return {token, token_end - token, keys, page};
  fault = find_fault(p, request, token, token_end, keys, page, page_end);
  return {};
}

// A Q tile of a request, of up to `most` rows, without its KV range.
inline WorkItem tile_of_request(const PlanParams& p, int request, int first_row, int most, const RequestLengths& lens,
                                int kv_token) {
  WorkItem item = {};
  item.request = request;
  item.requests = 1;
  item.first_row = first_row;
  item.rows = min(lens.queries * static_cast<int>(p.group.divisor) - first_row, most);
  item.memory = has_pages(p) ? lens.page : kv_token;
  item.pass = kv_token;
  item.partial = item.merge = -1;
  item.qo_token = lens.qo_token;
  item.qo_len = lens.queries;
  item.kv_token = kv_token;
  item.kv_len = lens.keys;
  return item;
}

// A request, and what prefix sums say of it.
struct ScannedRequest {
  RequestLengths lens;
  int request, kv_token;
  int first_tile, tiles;  // no tiles if the batch is known to be invalid
};

// The Q tiles of a request in a flat list, and the most of a batch. A mixed list has functions of the same names.
inline int tiles_of(const PlanParams& p, const RequestLengths& lens) {
  return ceil_divide(lens.queries * p.group.divisor, p.tile_rows);
}
inline int most_tiles(const PlanParams& p) { return p.capacity_items; }

// Where the plan has the first page of a request.
inline int* page_start(const PlanParams& p, int request) { return p.to_page_indptr + request; }

// Writes the entries of a request in the arrays of the plan.
inline void write_request(const PlanParams& p, int request, const RequestLengths& lens, int kv_token) {
  p.to_qo_indptr[request] = lens.qo_token;
  p.to_kv_indptr[request] = kv_token;
  if (has_pages(p)) p.to_page_indptr[request] = lens.page;
}

// The same behind the last request, where arrays end with the tokens, keys and pages of the batch.
inline void write_behind(const PlanParams& p, int entry, int token, int key, int page) {
  p.to_qo_indptr[entry] = token;
  p.to_kv_indptr[entry] = key;
  if (has_pages(p)) p.to_page_indptr[entry] = page;
}

// Scans the requests in order, one a thread, and, in the CTA that plans, writes the arrays of the plan.
template <class Cta, class Params>
class RequestScan {
  Cta& cta_;
  const Params& p_;
  bool writes_;
  Cost keys_ = 0, pages_ = 0;
  int tiles_ = 0, last_token_, last_page_;

 public:
  RequestScan(Cta& cta, const Params& p, BatchFault& fault, bool writes = true) : cta_(cta), p_(p), writes_(writes) {
    last_token_ = p.qo_indptr[p.requests];
    last_page_ = p.page_indptr ? p.page_indptr[p.requests] : 0;
    fault.note(p.requests == 0 && last_token_ != 0, Fault::QoStart, 0, last_token_);
    fault.note(p.requests == 0 && last_page_ != 0, Fault::PageStart, 0, last_page_);
  }

  // This thread's request of those from `first` on.
  ScannedRequest next(int first, BatchFault& fault) {
    constexpr int TOKEN_BITS = 42;  // one prefix sum counts keys in the lower 42 bits and tiles in the upper ones
    constexpr Cost TOKENS = (1ull << TOKEN_BITS) - 1;
    int request = first + cta_.thread(), count = min(p_.requests - first, Cta::THREADS);
    RequestLengths lens = request < p_.requests ? read_request(p_, request, fault) : RequestLengths{};
    int own = tiles_of(p_, lens);
    Cost all, before = cta_.exclusive_sum(static_cast<Cost>(own) << TOKEN_BITS | lens.keys, count, all);
    Cost token = keys_ + (before & TOKENS), token_end = token + lens.keys;
    int tile = tiles_ + static_cast<int>(before >> TOKEN_BITS);
    keys_ += all & TOKENS;
    tiles_ += static_cast<int>(all >> TOKEN_BITS);
    fault.note(token_end > static_cast<Cost>(p_.max_kv_tokens), Fault::KvTokens, request, clamped(token_end));
    if (fault.code != Fault::None || tile + own > most_tiles(p_)) own = 0;

    if (p_.page_stride >= 0) {  // padded rows are compressed
      before = cta_.exclusive_sum(ceil_divide(lens.keys, p_.page_size), count, all);
      lens.page = clamped(pages_ + before);
      pages_ += all;
      last_page_ = clamped(pages_);
    }
    int kv_token = static_cast<int>(token);
    if (writes_ && request < p_.requests) write_request(p_, request, lens, kv_token);
    return {lens, request, kv_token, tile, own};
  }

  // Writes the ends of the arrays, up to the capacity. Returns the number of tiles.
  int finish() const {
    cta_.each(p_.requests, writes_ ? p_.capacity_requests + 1 : 0,
              [&](int entry) { write_behind(p_, entry, last_token_, static_cast<int>(keys_), last_page_); });
    return tiles_;
  }
};
