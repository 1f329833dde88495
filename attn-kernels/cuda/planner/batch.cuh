// Plans a batch whose lengths are in device memory: one CTA writes the stream-K work list while other CTAs copy and
// check the page table. The list has the same bits as that of attn-core/src/plan with Schedule::StreamK.
#pragma once
#include "planner/page_table.cuh"
#include "planner/status.cuh"
#include "planner/work_list.cuh"
#include "planner/tiles.cuh"

inline lang::stream_k::Costs costs_of(const PlanParams& p) {
  return {p.item_cost, p.block_cost, p.merge_cost, p.min_split_blocks, p.max_workers};
}

template <class Cta, class Variant>
void plan_batch(Cta& cta, const PlanParams& p, const Variant& variant, int parts, void* scratch) {  // one CTA
  PlannerScratch memory(scratch, p);
  BatchFault fault;
  TileCounts tiles = make_tiles(cta, p, variant, memory, fault);
  int longest;
  bool wrong = cta.any_and_max(fault.code != Fault::None, tiles.longest, longest);
  // The last thread waits: it is the least likely to have a worker.
  if (parts > 0 && cta.thread() == Cta::THREADS - 1) wait_for_copied_pages(p, parts, fault);
  SplitCounts splits = {};
  if (!wrong) splits = cut_into_workers(cta, costs_of(p), memory, tiles.count, longest);
  if (cta.any(fault.code != Fault::None)) return reject_batch(cta, p, fault);
  WorkListWriter(p, memory, tiles.count, splits).write(cta);
  if (cta.thread() == 0) p.status->code = static_cast<int>(Fault::None);
}
