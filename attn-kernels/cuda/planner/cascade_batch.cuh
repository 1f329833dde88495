// Plans a batch with levels as a mixed list: one CTA writes the work list while other CTAs copy and check the pages.
// The list has the same bits as that of attn-core/src/plan for the batch with its levels; whether it should run
// flattened is not asked.
//
// 1. Groups of all levels become segments of keys (cascade_tables.cuh, cascade_requests.cuh): prefix sums over groups.
//    Which requests a group has, and which group a request is in, binary searches tell.
// 2. Requests add up the keys of their segments, and number their merge units.
// 3. Each segment decides whether its requests share tiles. Tiles are counted by level and request, and then placed
//    level by level (cascade_tiles.cuh). A thread walks over the tiles that requests share, since each begins where
//    units no longer fit the one before.
// 4. Both parts are split as those of a batch without levels (tile_splits.cuh, worker_cuts.cuh).
// 5. Units count their states, and tiles with a unit of several states get rows for them (cascade_states.cuh).
// 6. Items, merges and what is left of the arrays (cascade_items.cuh).
#pragma once
#include "planner/cascade_items.cuh"
#include "planner/cascade_pages.cuh"
#include "planner/mixed_batch.cuh"

// Notes the first page that the copying CTAs refused.
inline void note_bad_page(const CascadePlanParams& p, const CascadeScratch& memory, unsigned bad, LevelFault& fault) {
  if (bad == 0) return;
  int entry = static_cast<int>(~bad);
  auto is_before = [&](unsigned number) { return memory.groups[number].memory <= entry; };
  int number = static_cast<int>(partition_point(p.groups, is_before)) - 1;
  LevelGroup of = group_of_number(p, number);
  const LevelTables& table = p.tables[of.level];
  LevelFault ignored;
  long long at = read_keys(p, of, ignored).page + entry - memory.groups[number].memory;
  fault.note(fault_level(p, of.level), true, Fault::Page, static_cast<int>(at), table.page_indices[at],
             static_cast<int>(table.page_stride));
}

template <class Cta, class Variant>
void plan_cascade(Cta& cta, const CascadePlanParams& p, const Variant& variant, int parts, void* shared) {  // one CTA
  using Splits = TileSplits<Cta>;
  CascadeScratch memory(shared, p);
  LevelFault fault;
  CascadeRequests<Cta> requests(cta, p, memory);
  requests.scan_groups(fault);
  requests.scan_requests(fault);
  bool wrong = cta.any(fault.code != Fault::None);
  CascadeTiles<Cta, Variant> tiles(cta, p, memory, variant);
  Splits prefill(cta, p, memory.tiles_of_parts + p.decode_items, memory.starts);
  SplitCounts decode = {};
  if (!wrong) {
    tiles.find(requests.segments());
    decode = cut_parts(cta, p, memory, tiles, prefill);
    cta.sync();
  }
  if (parts > 0 && cta.thread() == Cta::THREADS - 1) {
    unsigned bad = wait_for_parts(p, parts);
    if (!wrong) note_bad_page(p, memory, bad, fault);
  }
  if (cta.any(fault.code != Fault::None)) {
    report_fault(cta, p, fault, fault.level);
    return clear_mixed_batch(cta, p);
  }

  CascadeStates<Cta> states(cta, p, memory, tiles.count(), requests.all().first_unit);
  states.assign(prefill, decode);
  using Items = CascadeItems<Cta, Variant>;
  Items items(cta, p, memory, tiles, states);
  LineItems<Items> line(p, memory, items, decode.in_tiles);
  cta.each(0, tiles.decodes, [&](int tile) { line.write_first_item(tile); });
  cta.each(0, p.capacity_workers, [&](int worker) { line.write_worker(worker); });
  items.write_longest_first(prefill);
  clear_items(cta, p, tiles.decodes + decode.in_tiles, p.decode_items);
  clear_items(cta, p, p.decode_items + prefill.items(), p.capacity_items);
  clear_merges(cta, p, states.merges());
  cta.each(states.merge_parts(), p.capacity_merge_parts, [&](int part) { p.merge_parts[part] = 0; });
  requests.write_ends();
  if (cta.thread() == 0) p.status->code = static_cast<int>(Fault::None);
}
