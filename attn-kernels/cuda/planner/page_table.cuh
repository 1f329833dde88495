// The CTAs that do not plan copy the page table, and check its pages. Before, they may find tiles (found_tiles.cuh).
#pragma once
#include "planner/requests.cuh"

// Reports that this CTA has copied its part of the page table. `bad`: the complement of the first entry that is not a
// page of the pool, or 0.
template <class Cta>
void report_copied_pages(Cta& cta, const PlanParams& p, unsigned bad) {
  if (bad != 0) {
    atomicMax(&p.status->first_bad_page, bad);
    __threadfence();
  }
  cta.sync();
  if (cta.thread() == 0) atomicAdd(&p.status->copied, 1u);
}

// Copies `count` pages to the entries from `to` on, a warp. A page that is not of the pool is 0 there; `bad` keeps the
// complement of the first one's number, where `number` is that of the first page.
inline void copy_pages(const PlanParams& p, const int* from, int count, int to, long long number, unsigned& bad) {
  constexpr int AT_ONCE = 4;
#pragma unroll 1
  for (int first = threadIdx.x % 32; first < count; first += 32 * AT_ONCE) {
#pragma unroll
    for (int i = first; i < first + 32 * AT_ONCE; i += 32) {
      if (i >= count || i >= p.max_page_entries - to) continue;  // the planning CTA reports pages over capacity
      int page = from[i];
      if (static_cast<unsigned>(page) >= static_cast<unsigned>(p.num_pages)) {
        bad = max(bad, ~static_cast<unsigned>(number + i));
        page = 0;
      }
      p.to_page_indices[to + i] = page;
    }
  }
}

// Compresses a page table of padded rows, a warp per row. Zeros follow up to a multiple of four entries, as they do
// behind a compressed table.
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
    copy_pages(p, p.page_indices + from, pages_of(request), *page_start(p, request), from, bad);
  }
  Cost padding = total + cta.thread();
  if (part == 0 && padding < (total + 3) / 4 * 4 && total <= static_cast<Cost>(p.max_page_entries))
    p.to_page_indices[padding] = 0;
  report_copied_pages(cta, p, bad);
}

// Copies and checks a part of the page table, then reports it.
template <class Cta, class Params>
void copy_page_table(Cta& cta, const Params& p, int part, int parts) {
  if (!has_pages(p)) return report_copied_pages(cta, p, 0);
  if (p.page_stride >= 0) return copy_padded_rows(cta, p, part, parts);
  constexpr int AT_ONCE = 4;
  int used = p.page_indptr[p.requests];
  if (used < 0 || used > p.max_page_entries) used = 0;  // the planning CTA reports the fault
  int end = (used + 3) / 4 * 4, step = parts * Cta::THREADS;
  unsigned bad = 0;
  for (int first = part * Cta::THREADS + cta.thread(); first < end; first += AT_ONCE * step) {
    int pages[AT_ONCE];
#pragma unroll
    for (int i = 0; i < AT_ONCE; ++i) pages[i] = first + i * step < used ? p.page_indices[first + i * step] : 0;
#pragma unroll
    for (int i = 0; i < AT_ONCE; ++i) {
      int index = first + i * step;
      if (static_cast<unsigned>(pages[i]) >= static_cast<unsigned>(p.num_pages) && index < used) {
        bad = max(bad, ~static_cast<unsigned>(index));
        pages[i] = 0;
      }
      if (index < end) p.to_page_indices[index] = pages[i];
    }
  }
  report_copied_pages(cta, p, bad);
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
