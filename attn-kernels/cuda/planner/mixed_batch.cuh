// Plans a batch without levels as a mixed list: one CTA writes the work list. Other CTAs find tiles, if there are many,
// and copy and check the page table. The list has the same bits as that of attn-core/src/plan.
#pragma once
#include "planner/mixed_items.cuh"
#include "planner/page_table.cuh"
#include "planner/status.cuh"
#include "planner/worker_share.cuh"
#include "planner/request_of_query.cuh"

// The rule that cuts the decode part, beside `items` items of the prefill part.
inline lang::stream_k::Costs decode_costs(const MixedPlanParams& p, int items, Cost decode, Cost prefill) {
  using namespace lang::worker_share;
  Cost beside = items;
  unsigned workers = p.own_sms ? own_sm_workers(p.decode_workers, beside, decode, prefill)
                               : co_run_workers(p.decode_workers, p.co_run_workers, beside, decode, prefill);
  return {p.decode_item_cost, p.decode_block_cost, p.decode_merge_cost, p.decode_min_split_blocks, workers};
}

// Splits the tiles of the prefill part, and cuts those of the decode part into workers.
template <class Cta, class Tiles, class Splits>
SplitCounts cut_parts(Cta& cta, const MixedPlanParams& p, const LineCuts& memory, const Tiles& tiles, Splits& prefill) {
  const PartCosts& costs = tiles.costs;
  prefill.split(tiles.prefills, costs.longest_prefill,
                lang::worker_share::worker_share(p.max_workers, costs.prefill, costs.decode));
  return cut_into_workers(cta, decode_costs(p, prefill.items(), costs.decode, costs.prefill), memory, tiles.decodes,
                          costs.longest_decode);
}

// Clears the items, merges and `merge_parts`: at once, since the CTA that plans may wait for the others later.
template <class Cta>
void clear_lists(const Cta& cta, const MixedPlanParams& p) {
  clear_items(cta, p, 0, p.capacity_items);
  clear_merges(cta, p, 0);
  cta.each(0, p.capacity_merge_parts, [&](int part) { p.merge_parts[part] = 0; });
}

// Also the segments of a batch that has a fault are empty: keys of all segments may be preprocessed.
template <class Cta>
void clear_mixed_batch(const Cta& cta, const MixedPlanParams& p) {
  clear_batch(cta, p);
  cta.each(0, p.capacity_segments + 1, [&](int entry) { p.segment_ends[entry] = 0; });
}

// What a capacity with levels has beside the lists of one without: more segments than requests, which stay empty, and
// the request of each query.
template <class Cta>
void write_for_levels(const Cta& cta, const MixedPlanParams& p, const MixedRequest* requests) {
  int tokens = p.qo_indptr[p.requests], keys = p.segment_ends[p.capacity_requests];
  cta.each(p.capacity_requests, p.capacity_segments,
           [&](int entry) { p.segments[entry] = {}, p.segment_ends[entry + 1] = keys; });
  write_request_of_query(cta, p, tokens, [&](int request) { return requests[request].lens; });
}

template <class Cta, class Variant>
void plan_mixed_batch(Cta& cta, const MixedPlanParams& p, const Variant& variant, int part, int parts, void* shared) {
  using Tiles = MixedTiles<Cta, Variant>;
  using Splits = TileSplits<Cta>;
  using States = MixedStates<Tiles, Splits>;
  if (part == parts) clear_lists(cta, p);
  BatchFault fault;
  Tiles tiles(cta, p, variant, shared);
  bool wrong = tiles.find(fault, part, parts);
  if (part < parts) return copy_page_table(cta, p, part, parts);
  const MixedScratch& memory = tiles.memory;
  Splits prefill(cta, p, memory.tiles + tiles.decodes, memory.starts);
  SplitCounts decode = {};
  if (!wrong) decode = cut_parts(cta, p, memory, tiles, prefill);
  // the last thread waits: it is the least likely to have a tile
  if (parts > 0 && cta.thread() == Cta::THREADS - 1) wait_for_copied_pages(p, parts, fault);
  if (cta.any(fault.code != Fault::None)) {
    report_fault(cta, p, fault);
    return clear_mixed_batch(cta, p);
  }

  const States states(p, tiles, prefill, decode);
  states.assign(cta);
  DecodeTiles<Tiles, States> of_decode = {p, tiles, states};
  LineItems<DecodeTiles<Tiles, States>> line(p, memory, of_decode, decode.in_tiles);
  int tile_warps = (tiles.decodes + 31) / 32;
  cta.each(0, tiles.decodes, [&](int tile) { line.write_first_item(tile); });
  cta.each(0, p.capacity_workers, [&](int worker) { line.write_worker(worker); }, tile_warps);
  PrefillItems<Cta, Tiles, Splits, States>(cta, p, tiles, prefill, states).write();
  if (p.capacity_queries > 0) write_for_levels(cta, p, memory.requests);
  if (cta.thread() == 0) p.status->code = static_cast<int>(Fault::None);
}
