// The CTAs that do not plan copy the page table, and check its pages. Before, they may find tiles (found_tiles.cuh).
#pragma once
#include "planner/requests.cuh"

// Writes zeros behind `total` copied pages up to a multiple of four entries, as the host writes them. Then reports that
// this CTA has copied its part of the page table. `bad`: the complement of the first entry that is not a page of the
// pool, or 0.
template <class Cta>
void report_copied_pages(Cta& cta, const PlanParams& p, int part, Cost total, unsigned bad) {
  Cost padding = total + cta.thread();
  if (part == 0 && padding < (total + 3) / 4 * 4 && total <= static_cast<Cost>(p.max_page_entries))
    p.to_page_indices[padding] = 0;
  if (bad != 0) {
    atomicMax(&p.status->first_bad_page, bad);
    __threadfence();
  }
  cta.sync();
  if (cta.thread() == 0) atomicAdd(&p.status->copied, 1u);
}

// Copies `count` pages to the entries from `to` on, this thread every `step`-th from `own` on. A page that is not of
// the pool is 0 there; `bad` keeps the complement of the first one's number, where `number` is that of the first page.
inline void copy_pages(const PlanParams& p, const int* from, int count, int to, long long number, int own, int step,
                       unsigned& bad) {
  constexpr int AT_ONCE = 4;
  count = min(count, p.max_page_entries - to);  // the planning CTA reports pages over capacity
#pragma unroll 1
  for (int first = own; first < count; first += AT_ONCE * step) {
    int pages[AT_ONCE];
#pragma unroll
    for (int i = 0; i < AT_ONCE; ++i) pages[i] = first + i * step < count ? from[first + i * step] : 0;
#pragma unroll
    for (int i = 0; i < AT_ONCE; ++i) {
      int index = first + i * step;
      if (index >= count) continue;
      bool outside = static_cast<unsigned>(pages[i]) >= static_cast<unsigned>(p.num_pages);
      if (outside) bad = max(bad, ~static_cast<unsigned>(number + index));
      p.to_page_indices[to + index] = outside ? 0 : pages[i];
    }
  }
}

// Compresses a page table of padded rows, a warp per row.
template <class Cta, class Params>
void copy_padded_rows(Cta& cta, const Params& p, int part, int parts) {
  constexpr int WARPS = Cta::THREADS / 32;
  BatchFault ignored;  // the planning CTA reports faults of lengths
  auto pages_of = [&](int request) { return ceil_divide(read_request(p, request, ignored).keys, p.page_size); };
  // the planning CTA writes the same values
  auto set_start = [&](int request, Cost before, Cost) { *page_start(p, request) = clamped(before); };
  Cost total = cta.scan(p.requests, pages_of, set_start);
  cta.sync();
  unsigned bad = 0;
#pragma unroll 1
  for (int request = part * WARPS + cta.thread() / 32; request < p.requests; request += parts * WARPS) {
    long long from = request * p.page_stride;
    int to = *page_start(p, request);
    copy_pages(p, p.page_indices + from, pages_of(request), to, from, cta.thread() % 32, 32, bad);
  }
  report_copied_pages(cta, p, part, total, bad);
}

// Copies and checks a part of the page table, then reports it.
template <class Cta, class Params>
void copy_page_table(Cta& cta, const Params& p, int part, int parts) {
  if (!has_pages(p)) return report_copied_pages(cta, p, part, 0, 0);
  if (p.page_stride >= 0) return copy_padded_rows(cta, p, part, parts);
  int used = p.page_indptr[p.requests];
  if (used < 0 || used > p.max_page_entries) used = 0;  // the planning CTA reports the fault
  unsigned bad = 0;
  copy_pages(p, p.page_indices, used, 0, 0, part * Cta::THREADS + cta.thread(), parts * Cta::THREADS, bad);
  report_copied_pages(cta, p, part, used, bad);
}

// Waits until all parts of the page table are copied, and resets the counters for the next launch: a CTA has found its
// tiles before. Returns the complement of the first entry that is not a page of the pool, or 0.
inline unsigned wait_for_parts(const PlanParams& p, unsigned parts) {
  auto* report = reinterpret_cast<volatile unsigned long long*>(&p.status->copied);
  unsigned long long word;
  do word = *report;
  while ((word & 0xffff) < parts);
  *report = 0;
  return word >> 32;
}

inline void wait_for_copied_pages(const PlanParams& p, unsigned parts, BatchFault& fault) {
  unsigned bad = wait_for_parts(p, parts);
  if (bad != 0) fault.note(true, Fault::Page, ~bad, p.page_indices[~bad], static_cast<int>(p.page_stride));
}
