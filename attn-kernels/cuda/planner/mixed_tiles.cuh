// The Q tiles of a mixed list without levels. A request with at most as many rows as a decode tile is one tile of the
// decode part; the others are cut into tiles of the prefill part.
#pragma once
#include "planner/found_tiles.cuh"
#include "planner/sort.cuh"
#include "planner/worker_cuts.cuh"

// For RequestScan and for the CTAs that copy the page table: what a flat list has other functions for.
inline bool is_decode(const MixedPlanParams& p, const RequestLengths& lens) {
  return lens.queries * static_cast<int>(p.group.divisor) <= p.decode_rows;
}
inline int tiles_of(const MixedPlanParams& p, const RequestLengths& lens) {
  if (is_decode(p, lens)) return lens.queries > 0;
  return ceil_divide(lens.queries * p.group.divisor, p.tile_rows);
}
inline int most_tiles(const MixedPlanParams& p) { return p.capacity_tiles; }
inline int* page_start(const MixedPlanParams& p, int request) { return &p.segments[request].memory; }

// A request is a segment of keys.
inline void write_request(const MixedPlanParams& p, int request, const RequestLengths& lens, int kv_token) {
  p.to_qo_indptr[request] = lens.qo_token;
  p.to_kv_indptr[request] = kv_token;
  int memory = has_pages(p) ? lens.page : kv_token;
  p.segments[request] = {request, 1, 0, lens.keys, memory, kv_token, kv_token, lens.keys};
  p.segment_ends[request + 1] = kv_token + lens.keys;
}
inline void write_behind(const MixedPlanParams& p, int entry, int token, int key, int) {
  p.to_qo_indptr[entry] = token;
  p.to_kv_indptr[entry] = key;
  bool is_last = entry == p.capacity_requests;
  p.segment_ends[is_last ? 0 : entry + 1] = is_last ? 0 : key;
  if (!is_last) p.segments[entry] = {};
}

// A request, and the tiles of both parts before it.
struct MixedRequest {
  RequestLengths lens;
  int kv_token, decodes, prefills;
  int item;  // of the prefill part: where its items begin
};

// Of a cut tile: the partial row of its first state, its first merge, and the first entry of that in `merge_parts`.
struct TileStates {
  int row, merge, part;
};

// Scratch memory, as SplitScratch. attn-kernels/src/launch/planner_scratch.rs computes its size.
struct MixedScratch : LineCuts {  // of the decode part
  Cost* order;                    // [order_words] the ends on the line; then of sorts; then lengths of items
  MixedRequest* requests;         // [requests]
  SplitTile* tiles;               // [tiles] of the decode part, then of the prefill part
  TileStart* starts;              // [prefill workers, no more than tiles] of the prefill part, if any is cut
  TileStates* states;             // [decode workers + as many] of cut tiles: of the decode part, then the others
  int* long_requests;             // [requests] those of the prefill part

  // Where other CTAs may find tiles, their memory is for the sort of many items: few batches need it.
  static unsigned order_words(const MixedPlanParams& p) {
    unsigned items = p.capacity_items - p.decode_items, requests = p.capacity_requests;
    return SORT_COUNTERS / 2 + max(requests, p.found ? max((items + 1) / 2, min(items, FEW_NUMBERS)) : items);
  }

  MixedScratch(void* shared, const MixedPlanParams& p) {
    unsigned workers = p.decode_workers + 1, starts_count = min(p.max_workers, static_cast<unsigned>(p.capacity_tiles));
    ends = order = p.order ? p.order : static_cast<Cost*>(shared);
    requests = static_cast<MixedRequest*>(p.scratch ? p.scratch : order + order_words(p));
    splits = reinterpret_cast<TileSplit*>(requests + p.capacity_requests);
    cuts = reinterpret_cast<Cut*>(splits + workers);
    tiles = reinterpret_cast<SplitTile*>(cuts + workers);
    starts = reinterpret_cast<TileStart*>(tiles + p.capacity_tiles);
    states = reinterpret_cast<TileStates*>(starts + starts_count);
    first_items = reinterpret_cast<int*>(states + p.decode_workers + starts_count);
    first_splits = first_items + workers;
    long_requests = first_splits + workers;
    used_workers = reinterpret_cast<unsigned*>(long_requests + p.capacity_requests);
  }

  // For sorts of requests; of items, unless `found` has more room.
  SortBuffers sort() const {
    return {reinterpret_cast<unsigned*>(order), reinterpret_cast<unsigned*>(order + SORT_COUNTERS / 2)};
  }
};

template <class Cta, class Variant>
class MixedTiles {
  Cta& cta_;
  const MixedPlanParams& p_;
  const Variant& variant_;

 public:
  MixedScratch memory;
  int decodes = 0, prefills = 0, long_requests = 0;  // tiles of the parts, and requests of the prefill part
  int longest_request = 0;                           // keys of a request of the prefill part
  PartCosts costs;

  MixedTiles(Cta& cta, const MixedPlanParams& p, const Variant& variant, void* shared)
      : cta_(cta), p_(p), variant_(variant), memory(shared, p) {}

  // Finds the tiles, together with the other CTAs. Returns whether the batch has a fault; it then has no tiles.
  bool find(BatchFault& fault, int part, int parts) {
    RequestScan<Cta, MixedPlanParams> scan(cta_, p_, fault, part == parts);
    Cost counted = 0;  // tiles of the decode part in the lower 32 bits, requests of the prefill part in the upper
    int longest = 0;
#pragma unroll 1
    for (int first = 0; first < p_.requests; first += Cta::THREADS) {
      ScannedRequest own = scan.next(first, fault);
      bool decode = own.tiles > 0 && is_decode(p_, own.lens), prefill = own.tiles > 0 && !decode;
      Cost all, before = static_cast<Cost>(prefill) << 32 | static_cast<Cost>(decode);
      before = counted + cta_.exclusive_sum(before, min(p_.requests - first, Cta::THREADS), all);
      counted += all;
      int of_decode = static_cast<int>(before & 0xffffffff);
      if (own.request < p_.requests) {
        MixedRequest& to = memory.requests[own.request];  // in the workspace other CTAs may write the same, later
        to.lens = own.lens, to.kv_token = own.kv_token;
        to.decodes = of_decode, to.prefills = own.first_tile - of_decode;
      }
      if (prefill) memory.long_requests[before >> 32] = own.request, longest = max(longest, own.lens.keys);
    }
    int tiles = scan.finish();
    if (cta_.any_and_max(fault.code != Fault::None, longest, longest_request, 2)) {
      if (part < parts) report_found_tiles(cta_, p_);
      return true;
    }
    fault = {};  // as it is: it takes no registers then
    decodes = static_cast<int>(counted & 0xffffffff), prefills = tiles - decodes;
    long_requests = static_cast<int>(counted >> 32);
    find_tiles(cta_, p_, memory.tiles, tiles, part, parts, [&](int number) { return found(number); });
    if (part == parts)
      costs = PartCosts::of(cta_, p_, memory.tiles, decodes, memory.tiles + decodes, prefills, memory.ends);
    return false;
  }

  // A tile without its KV range.
  WorkItem tile_at(int number, int request) const {
    const MixedRequest& of = memory.requests[request];
    int rows = p_.tile_rows.divisor, before = number - decodes - of.prefills;
    if (number < decodes) rows = p_.decode_rows, before = 0;
    return tile_of_request(p_, request, before * rows, rows, of.lens, of.kv_token);
  }

 private:
  int request_of(int number) const {
    bool decode = number < decodes;
    int prefill = number - decodes;
    auto is_before = [&](unsigned request) {
      const MixedRequest& of = memory.requests[request];
      return decode ? of.decodes <= number : of.prefills <= prefill;
    };
    return partition_point(p_.requests, is_before) - 1;
  }

  // A tile with its visible blocks.
  SplitTile found(int number) const {
    int request = request_of(number);
    FastDiv align = number < decodes ? p_.decode_align : p_.kv_align;
    return {visible_blocks(p_, variant_, tile_at(number, request), align, number >= decodes), request};
  }
};
