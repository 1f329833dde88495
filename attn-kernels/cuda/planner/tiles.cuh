// Turns the lengths of a batch into Q tiles, in order, each with its visible KV blocks and its end on the stream-K
// line. Lengths are checked on the way; positions come from prefix sums over the requests.
#pragma once
#include "planner/memory.cuh"
#include "planner/visible.cuh"

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

// The coordinates of a tile's rows, as bounds. They cover all heads, since one work list serves all of them.
inline QueryTile query_tile(const PlanParams& p, const WorkItem& tile) {
  int first = divide(tile.first_row, p.group), last = divide(tile.first_row + tile.rows - 1, p.group);
  int pos = tile.kv_len - tile.qo_len;
  return {tile.request,         first, last,           first + pos, last + pos,     tile.qo_token + first,
          tile.qo_token + last, 0,     p.qo_heads - 1, 0,           p.kv_heads - 1, tile.qo_len,
          tile.kv_len};
}

template <class Variant>
BlockRange visible_blocks(const PlanParams& p, const Variant& variant, const WorkItem& tile) {
  int blocks = ceil_divide(tile.kv_len, p.kv_align);
  if constexpr (Variant::HAS_TILE_CLASS) {
    if (blocks > 0) return SeenKeys<Variant>(variant, query_tile(p, tile), tile.kv_token, p.kv_align).find(blocks);
  }
  return {0, blocks};
}

struct TileCounts {
  int count = 0;    // of the whole batch
  int longest = 0;  // KV blocks of this thread's longest tile
};

// Lists all Q tiles. A thread handles a request and lists its tiles one after the other, since they are few.
template <class Cta, class Variant>
TileCounts make_tiles(Cta& cta, const PlanParams& p, const Variant& variant, const PlannerScratch& memory,
                      BatchFault& fault) {
  constexpr int TOKEN_BITS = 42;  // one prefix sum counts keys in the lower 42 bits and tiles in the upper ones
  auto cost = [&](int blocks) { return p.item_cost + static_cast<Cost>(blocks) * p.block_cost; };
  TileCounts tiles;
  Cost keys_before = 0, pages_before = 0, line = 0;
  int last_token = p.qo_indptr[p.requests], last_page = p.page_indptr ? p.page_indptr[p.requests] : 0;
  fault.note(p.requests == 0 && last_token != 0, Fault::QoStart, 0, last_token);
  fault.note(p.requests == 0 && last_page != 0, Fault::PageStart, 0, last_page);

#pragma unroll 1
  for (int first = 0; first < p.requests; first += Cta::THREADS) {
    int request = first + cta.thread(), count = min(p.requests - first, Cta::THREADS);
    RequestLengths lens = request < p.requests ? read_request(p, request, fault) : RequestLengths{};
    int rows = lens.queries * p.group.divisor, own = ceil_divide(rows, p.tile_rows);
    Cost all, before = cta.exclusive_sum(static_cast<Cost>(own) << TOKEN_BITS | lens.keys, count, all);
    Cost token = keys_before + (before & ((1ull << TOKEN_BITS) - 1));
    int tile = tiles.count + static_cast<int>(before >> TOKEN_BITS);
    keys_before += all & ((1ull << TOKEN_BITS) - 1);
    tiles.count += static_cast<int>(all >> TOKEN_BITS);
    Cost token_end = token + lens.keys;
    fault.note(token_end > static_cast<Cost>(p.max_kv_tokens), Fault::KvTokens, request,
               static_cast<int>(min(token_end, Cost(0x7fffffff))));
    if (fault.code != Fault::None || tile + own > p.capacity_items) own = 0;

    if (p.page_stride >= 0) {  // padded rows are compressed
      before = cta.exclusive_sum(ceil_divide(lens.keys, p.page_size), count, all);
      lens.page = static_cast<int>(min(pages_before + before, Cost(0x7fffffff)));
      pages_before += all;
      last_page = static_cast<int>(min(pages_before, Cost(0x7fffffff)));
    }
    int kv_token = static_cast<int>(token);
    if (request < p.requests) {
      p.to_qo_indptr[request] = lens.qo_token;
      p.to_kv_indptr[request] = kv_token;
      if (has_pages(p)) p.to_page_indptr[request] = lens.page;
    }
    Cost costs = 0;
#pragma unroll 1
    for (int i = 0; i < own; ++i) {
      int first_row = i * p.tile_rows.divisor;
      WorkItem item = {};
      item.request = request;
      item.requests = 1;
      item.first_row = first_row;
      item.rows = min(rows - first_row, static_cast<int>(p.tile_rows.divisor));
      item.memory = has_pages(p) ? lens.page : kv_token;
      item.pass = kv_token;
      item.partial = item.merge = -1;
      item.qo_token = lens.qo_token;
      item.qo_len = lens.queries;
      item.kv_token = kv_token;
      item.kv_len = lens.keys;
      BlockRange visible = visible_blocks(p, variant, item);
      item.kv_begin = visible.begin;
      item.kv_end = visible.end;
      store_item(memory.tiles + ITEM_WORDS * (tile + i), item);
      costs += cost(visible.end - visible.begin);
      memory.ends[tile + i] = costs;
      tiles.longest = max(tiles.longest, visible.end - visible.begin);
    }
    before = line + cta.exclusive_sum(costs, count, all);
    line += all;
#pragma unroll 1
    for (int i = 0; i < own; ++i) memory.ends[tile + i] += before;
  }

#pragma unroll 1
  for (int entry = p.requests + cta.thread(); entry <= p.capacity_requests; entry += Cta::THREADS) {
    p.to_qo_indptr[entry] = last_token;
    p.to_kv_indptr[entry] = static_cast<int>(keys_before);
    if (has_pages(p)) p.to_page_indptr[entry] = last_page;
  }
  return tiles;
}
