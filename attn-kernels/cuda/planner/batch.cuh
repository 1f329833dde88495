// Planning a batch whose lengths are in memory of the device, by one CTA; others copy its page table meanwhile. The list is that of
// attn-core/src/plan for Schedule::Line, to the bit.
#pragma once
#include "planner/work_list.cuh"
#include "planner/tiles.cuh"

// A part of the page table is copied: says so, and which entry of it is the first that is no page, as its complement; 0: none.
template <class Cta>
void say_copied(Cta& cta, const PlanParams& p, unsigned bad) {
  if (bad != 0) {
    atomicMax(&p.status->bad_page, bad);
    __threadfence();
  }
  cta.sync();
  if (cta.thread() == 0) atomicAdd(&p.status->copied, 1u);
}

// Of padded rows, each by a warp: they lie end to end afterwards, with zeros up to a multiple of four as behind compressed ones.
template <class Cta>
void copy_rows(Cta& cta, const PlanParams& p, int part, int parts) {
  constexpr int WARPS = Cta::THREADS / 32, AT_ONCE = 4;
  Finding nobody;  // the CTA that plans says what is wrong
  Cost total = 0;
#pragma unroll 1
  for (int first = 0; first < p.requests; first += Cta::THREADS) {
    int request = first + cta.thread(), count = min(p.requests - first, Cta::THREADS);
    int keys = request < p.requests ? read_request(p, request, nobody).keys : 0;
    Cost all, before = cta.sum_before(ceil_divide(keys, p.page_size), count, all);
    // what the CTA that plans writes there too
    if (request < p.requests) p.to_page_indptr[request] = static_cast<int>(min(total + before, Cost(0x7fffffff)));
    total += all;
  }
  cta.sync();
  unsigned bad = 0;
  int lane = cta.thread() % 32;
#pragma unroll 1
  for (int request = part * WARPS + cta.thread() / 32; request < p.requests; request += parts * WARPS) {
    int pages = ceil_divide(read_request(p, request, nobody).keys, p.page_size), to = p.to_page_indptr[request];
    long long from = request * p.page_stride;
#pragma unroll 1
    for (int first = lane; first < pages; first += 32 * AT_ONCE) {
#pragma unroll
      for (int i = first; i < first + 32 * AT_ONCE; i += 32) {
        if (i >= pages || i >= p.most_pages - to) continue;  // more than there is room for is wrong
        int page = p.page_indices[from + i];
        if (static_cast<unsigned>(page) >= static_cast<unsigned>(p.num_pages)) {
          bad = max(bad, ~static_cast<unsigned>(from + i));
          page = 0;
        }
        p.to_page_indices[to + i] = page;
      }
    }
  }
  Cost zero = total + cta.thread();
  if (part == 0 && zero < (total + 3) / 4 * 4 && total <= static_cast<Cost>(p.most_pages)) p.to_page_indices[zero] = 0;
  say_copied(cta, p, bad);
}

// Copies a part of the page table, checks it, and says so when it is done.
template <class Cta>
void copy_pages(Cta& cta, const PlanParams& p, int part, int parts) {
  if (p.page_stride >= 0) return copy_rows(cta, p, part, parts);
  constexpr int AT_ONCE = 4;
  int used = p.page_indptr[p.requests];
  if (used < 0 || used > p.most_pages) used = 0;  // the CTA that plans says what is wrong
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
  say_copied(cta, p, bad);
}

// Waits for those who copy pages, and forgets them.
inline void check_pages(const PlanParams& p, unsigned parts, Finding& finding) {
  auto* said = reinterpret_cast<volatile unsigned long long*>(&p.status->copied);
  unsigned long long word;
  do word = *said;
  while (static_cast<unsigned>(word) < parts);
  *said = 0;
  unsigned bad = word >> 32;
  if (bad != 0) finding.note(true, Fault::Page, ~bad, p.page_indices[~bad], static_cast<int>(p.page_stride));
}

// Says what is wrong, of several things the first.
template <class Cta>
void say_wrong(Cta& cta, const PlanParams& p, const Finding& finding) {
  Cost rank = finding.fault == Fault::None ? ~0ull : static_cast<Cost>(finding.index) << 8 | static_cast<Cost>(finding.fault);
  if (rank == cta.least(rank) && finding.fault != Fault::None) {
    PlanStatus& status = *p.status;
    status.code = static_cast<int>(finding.fault);
    status.index = finding.index;
    status.value = finding.value;
    status.other = finding.other;
  }
}

// And no worker has anything to do.
template <class Cta>
void refuse(Cta& cta, const PlanParams& p, const Finding& finding) {
  say_wrong(cta, p, finding);
#pragma unroll 1
  for (unsigned word = cta.thread(); word < 4 * p.workers_most; word += Cta::THREADS) p.workers[word] = make_int4(0, 0, 0, 0);
}

template <class Cta, class Variant>
void plan_batch(Cta& cta, const PlanParams& p, const Variant& variant, int parts, void* scratch) {
  PlanMemory memory(scratch, p);
  Finding finding;
  Tiles tiles = make_tiles(cta, p, variant, memory, finding);
  int longest;
  bool wrong = cta.any_and_most(finding.fault != Fault::None, tiles.longest, longest);
  if (parts > 0 && cta.thread() == Cta::THREADS - 1) check_pages(p, parts, finding);  // who is seldom a worker
  Pieces pieces = {};
  if (!wrong) pieces = cut_line(cta, p, memory, tiles.count, longest);
  if (cta.any(finding.fault != Fault::None)) return refuse(cta, p, finding);
  ListWriter(p, memory, tiles.count, pieces).write(cta);
  if (cta.thread() == 0) p.status->code = static_cast<int>(Fault::None);
}
