// The CTAs that do not plan copy the pages of a batch with levels: those that the keys of groups with requests need,
// group by group.
#pragma once
#include "planner/cascade_tables.cuh"
#include "planner/page_table.cuh"

// Copies a part of the pages, a warp a group, and reports it.
template <class Cta>
void copy_level_pages(Cta& cta, const CascadePlanParams& p, int part, int parts) {
  constexpr int WARPS = Cta::THREADS / 32;
  LevelFault ignored;  // the planning CTA reports faults of lengths
  GroupScan<Cta> scan(cta, p, single_levels(cta, p));
#pragma unroll 1
  for (int first = 0; first < p.groups; first += Cta::THREADS) {
    ScannedGroup own = scan.next(first, ignored);
    // all copying CTAs write the same values
    if (own.number < p.groups) p.group_pages[own.number] = own.keys > 0 ? own.memory : -1;
  }
  cta.sync();
  unsigned bad = 0;
#pragma unroll 1
  for (int number = part * WARPS + cta.thread() / 32; number < p.groups; number += parts * WARPS) {
    int to = p.group_pages[number];
    if (to < 0) continue;
    LevelGroup of = group_of_number(p, number);
    GroupKeys group = read_keys(p, of, ignored);
    const int* from = p.tables[of.level].page_indices + group.page;
    copy_pages(p, from, ceil_divide(group.keys, p.page_size), to, to, cta.thread() % 32, 32, bad);
  }
  report_copied_pages(cta, p, part, scan.memory(), bad);
}
