// Plans a batch whose tiles are split one by one, as attn-core/src/plan does under Schedule::LongestFirst and
// Schedule::FixedSplit: one CTA writes the work list. Other CTAs find tiles, if there are many, and copy and check the
// page table.
#pragma once
#include "planner/page_table.cuh"
#include "planner/split_tiles.cuh"
#include "planner/status.cuh"
#include "planner/stream_k_line.cuh"

// Writes the items, the longest first, for kernels in which each item has a worker of its own. Equally long items keep
// their order.
template <class Cta, class Splitter>
void write_longest_first(Cta& cta, const PlanParams& p, const Splitter& splitter) {
  unsigned items = splitter.items();
  auto length = [&](unsigned index) { return splitter.length(index); };
  const unsigned* sorted = sort_numbers(cta, splitter.memory().sort(p), items, splitter.longest_keys(), length);
  cta.each(0u, items, [&](unsigned at) { store_item(p.items + ITEM_WORDS * at, splitter.item(sorted[at])); });
}

// Writes the items in order, and assigns them to workers at about equal cost. An item belongs to the worker in whose
// share of the total cost it begins.
template <class Cta, class Splitter>
void write_in_order(Cta& cta, const PlanParams& p, const Splitter& splitter) {
  int items = splitter.items();
  Cost* begins = splitter.memory().order;
  auto write = [&](int index) {
    WorkItem item = splitter.item(index);
    store_item(p.items + ITEM_WORDS * index, item);
    return p.item_cost + static_cast<Cost>(ceil_divide(item.kv_end - item.kv_begin, p.kv_align)) * p.block_cost;
  };
  Cost total = cta.scan(items, write, [&](int index, Cost before, Cost) { begins[index] = before; });
  cta.sync();
  int workers = min(max(items, 1), static_cast<int>(p.max_workers));
  lang::stream_k::Shares shares = lang::stream_k::equal_shares(total, workers);
  auto first_item = [&](int worker) {
    if (worker == 0) return 0;
    if (worker >= workers) return items;
    Cost at = lang::stream_k::up_to(shares, worker);
    return static_cast<int>(partition_point(items, [&](unsigned item) { return begins[item] < at; }));
  };
  cta.each(0, p.capacity_workers, [&](int worker) {
    int4* to = p.workers + START_WORDS * worker;
    int first = 0, end = 0;
    if (worker < workers) first = first_item(worker), end = first_item(worker + 1);
    to[0] = make_int4(first, end, 0, 0);
    store_item(to + 1, first < end ? splitter.item(first) : WorkItem{});
  });
}

template <class Cta, class Variant>
void plan_split_batch(Cta& cta, const PlanParams& p, const Variant& variant, int part, int parts, void* shared) {
  // at once, since the CTA that plans may wait for the others later
  if (part == parts) clear_items(cta, p, 0, p.capacity_items), clear_merges(cta, p, 0);
  BatchFault fault;
  TileSplitter<Cta, Variant> splitter(cta, p, variant, shared);
  splitter.split(fault, part, parts);
  if (part < parts) return copy_page_table(cta, p, part, parts);
  // the last thread waits: it is the least likely to have a tile
  if (parts > 0 && cta.thread() == Cta::THREADS - 1) wait_for_copied_pages(p, parts, fault);
  if (cta.any(fault.code != Fault::None)) return reject_batch(cta, p, fault);
  if (p.fixed_split_blocks > 0) {
    write_in_order(cta, p, splitter);
  } else {
    write_longest_first(cta, p, splitter);
  }
  if (cta.thread() == 0) p.status->code = static_cast<int>(Fault::None);
}
