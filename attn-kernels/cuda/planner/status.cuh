// The status of a batch: its first fault, and the empty work list of a batch that has one.
#pragma once
#include "planner/requests.cuh"

// Writes the first fault of the batch, if there is any, to the status: of the requests' arrays, then level by level.
template <class Cta>
void report_fault(Cta& cta, const PlanParams& p, const BatchFault& fault, int level = 0) {
  Cost rank = static_cast<Cost>(level) << 48 | static_cast<Cost>(fault.index) << 8 | static_cast<Cost>(fault.code);
  if (fault.code == Fault::None) rank = ~0ull;
  if (rank == cta.min_of_all(rank) && fault.code != Fault::None) {
    PlanStatus& status = *p.status;
    status.code = static_cast<int>(fault.code) | level << 8;
    status.index = fault.index;
    status.value = fault.value;
    status.other = fault.other;
  }
}

// Clears the entries from `first` to before `end`, of `words` words of 16 bytes each.
template <class Cta>
void clear_words(const Cta& cta, int4* to, int words, int first, int end) {
  cta.each(words * first, words * end, [&](int word) { to[word] = make_int4(0, 0, 0, 0); });
}

// Clears the items from `first` to before `end`, which are not used.
template <class Cta>
void clear_items(const Cta& cta, const PlanParams& p, int first, int end) {
  clear_words(cta, p.items, ITEM_WORDS, first, end);
}

// The same of merges.
template <class Cta>
void clear_merges(const Cta& cta, const PlanParams& p, int first) {
  clear_words(cta, p.merges, MERGE_WORDS, first, p.capacity_merges);
}

// Kernels without workers read items and merges themselves.
template <class Cta>
void clear_batch(const Cta& cta, const PlanParams& p) {
  clear_words(cta, p.workers, START_WORDS, 0, p.capacity_workers);
  clear_items(cta, p, 0, p.capacity_items);
  clear_merges(cta, p, 0);
}

// The device cannot return an error: it writes a status code and an empty work list.
template <class Cta>
void reject_batch(Cta& cta, const PlanParams& p, const BatchFault& fault) {
  report_fault(cta, p, fault);
  clear_batch(cta, p);
}
