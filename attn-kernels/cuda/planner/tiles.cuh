// From the lengths of a batch to its tiles: checked, in order, each with the blocks of keys that it sees and where it ends on the line.
#pragma once
#include "planner/memory.cuh"
#include "planner/visible.cuh"

// What a thread found to be wrong, if anything.
struct Finding {
  Fault fault = Fault::None;
  int index = 0, value = 0, other = 0;

  void note(bool wrong, Fault what, int at, int found, int before = 0) {
    if (wrong && fault == Fault::None) *this = {what, at, found, before};
  }
};

inline bool has_pages(const PlanParams& p) { return p.page_indptr || p.page_stride >= 0; }

inline int ceil_divide(int n, FastDiv d) { return n > 0 ? divide(n - 1, d) + 1 : 0; }

// A request as it is planned: one with something wrong has no queries and no keys.
struct Lens {
  int qo_token = 0, queries = 0, keys = 0, page = 0;
};

// What is wrong with a request of which something is.
inline Finding find_fault(const PlanParams& p, int request, int token, int token_end, int keys, int page, int page_end) {
  Finding finding;
  finding.note(request == 0 && token != 0, Fault::QoStart, 0, token);
  finding.note(token < 0 || token_end < token, Fault::QoOrder, request + 1, token_end, token);
  finding.note(token_end > p.most_qo_tokens, Fault::QoTokens, request, token_end);
  if (finding.fault != Fault::None) return finding;
  finding.note(token_end - token > p.most_queries, Fault::RequestRows, request, token_end - token);
  finding.note(keys < 0, Fault::KvLen, request, keys);
  finding.note(keys > p.most_kv_tokens, Fault::KvTokens, request, keys);
  finding.note(request == 0 && page != 0, Fault::PageStart, 0, page);
  finding.note(page < 0 || page_end < page, Fault::PageOrder, request + 1, page_end, page);
  finding.note(p.page_indptr && page_end > p.most_pages, Fault::PageRoom, request, page_end);
  finding.note(true, Fault::FewPages, request, page_end - page, keys);
  return finding;
}

inline Lens read_request(const PlanParams& p, int request, Finding& finding) {
  int token = p.qo_indptr[request], token_end = p.qo_indptr[request + 1], keys = p.kv_lens[request];
  int page = 0, page_end = 0;
  if (p.page_indptr) page = p.page_indptr[request], page_end = p.page_indptr[request + 1];
  if (p.page_stride >= 0) page_end = static_cast<int>(min(p.page_stride, 0x7fffffffll));
  auto within = [](int value, int most) { return static_cast<unsigned>(value) <= static_cast<unsigned>(most); };
  bool sound = within(token, token_end) && within(token_end, p.most_qo_tokens) && token_end - token <= p.most_queries &&
               within(keys, p.most_kv_tokens) && (request > 0 || (token == 0 && page == 0));
  if (p.page_indptr) sound = sound && within(page, page_end) && within(page_end, p.most_pages);
  if (has_pages(p)) sound = sound && ceil_divide(keys, p.page_size) <= page_end - page;
  if (sound) return {token, token_end - token, keys, page};
  finding = find_fault(p, request, token, token_end, keys, page, page_end);
  return {};
}

// The rows of a tile as bounds, over all heads, since one list serves them.
inline QueryTile bounds_of(const PlanParams& p, const WorkItem& tile) {
  int first = divide(tile.first_row, p.group), last = divide(tile.first_row + tile.rows - 1, p.group);
  int pos = tile.kv_len - tile.qo_len;
  return {tile.request,          first,        last, first + pos, last + pos, tile.qo_token + first, tile.qo_token + last, 0,
          p.qo_heads - 1, 0, p.kv_heads - 1, tile.qo_len, tile.kv_len};
}

template <class Variant>
Blocks seen_blocks(const PlanParams& p, const Variant& variant, const WorkItem& tile) {
  int blocks = ceil_divide(tile.kv_len, p.kv_align);
  if constexpr (Variant::HAS_TILE_CLASS) {
    if (blocks > 0) return SeenKeys<Variant>(variant, bounds_of(p, tile), tile.kv_token, p.kv_align).find(blocks);
  }
  return {0, blocks};
}

// All tiles. A thread has a request, and its tiles one after the other: they are few.
struct Tiles {
  int count = 0;
  int longest = 0;  // blocks of the longest of this thread's
};

template <class Cta, class Variant>
Tiles make_tiles(Cta& cta, const PlanParams& p, const Variant& variant, const PlanMemory& memory, Finding& finding) {
  constexpr int TOKEN_BITS = 42;  // of a sum of keys, above which tiles are counted
  auto cost = [&](int blocks) { return p.piece + static_cast<Cost>(blocks) * p.block; };
  Tiles tiles;
  Cost keys_before = 0, pages_before = 0, line = 0;
  int last_token = p.qo_indptr[p.requests], last_page = p.page_indptr ? p.page_indptr[p.requests] : 0;
  finding.note(p.requests == 0 && last_token != 0, Fault::QoStart, 0, last_token);
  finding.note(p.requests == 0 && last_page != 0, Fault::PageStart, 0, last_page);

#pragma unroll 1
  for (int first = 0; first < p.requests; first += Cta::THREADS) {
    int request = first + cta.thread(), count = min(p.requests - first, Cta::THREADS);
    Lens lens = request < p.requests ? read_request(p, request, finding) : Lens{};
    int rows = lens.queries * p.group.divisor, own = ceil_divide(rows, p.tile_rows);
    Cost all, before = cta.sum_before(static_cast<Cost>(own) << TOKEN_BITS | lens.keys, count, all);
    Cost token = keys_before + (before & ((1ull << TOKEN_BITS) - 1));
    int tile = tiles.count + static_cast<int>(before >> TOKEN_BITS);
    keys_before += all & ((1ull << TOKEN_BITS) - 1);
    tiles.count += static_cast<int>(all >> TOKEN_BITS);
    Cost token_end = token + lens.keys;
    finding.note(token_end > static_cast<Cost>(p.most_kv_tokens), Fault::KvTokens, request, static_cast<int>(min(token_end, Cost(0x7fffffff))));
    if (finding.fault != Fault::None || tile + own > p.room_items) own = 0;

    if (p.page_stride >= 0) {  // rows become compressed ones
      before = cta.sum_before(ceil_divide(lens.keys, p.page_size), count, all);
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
      WorkItem item = {request,       first_row,    min(rows - first_row, static_cast<int>(p.tile_rows.divisor)), 0, 0, -1, -1,
                       lens.qo_token, lens.queries, kv_token, lens.keys, lens.page};
      Blocks seen = seen_blocks(p, variant, item);
      item.kv_begin = seen.begin;
      item.kv_end = seen.end;
      store_item(memory.tiles + 3 * (tile + i), item);
      costs += cost(seen.end - seen.begin);
      memory.ends[tile + i] = costs;
      tiles.longest = max(tiles.longest, seen.end - seen.begin);
    }
    before = line + cta.sum_before(costs, count, all);
    line += all;
#pragma unroll 1
    for (int i = 0; i < own; ++i) memory.ends[tile + i] += before;
  }

#pragma unroll 1
  for (int entry = p.requests + cta.thread(); entry <= p.room_requests; entry += Cta::THREADS) {
    p.to_qo_indptr[entry] = last_token;
    p.to_kv_indptr[entry] = static_cast<int>(keys_before);
    if (has_pages(p)) p.to_page_indptr[entry] = last_page;
  }
  return tiles;
}
