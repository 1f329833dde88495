// The status of a batch: its first fault, and the empty work list of a batch that has one.
#pragma once
#include "planner/requests.cuh"

// Writes the first fault of the batch, if there is any, to the status.
template <class Cta>
void report_fault(Cta& cta, const PlanParams& p, const BatchFault& fault) {
  Cost rank = fault.code == Fault::None ? ~0ull : static_cast<Cost>(fault.index) << 8 | static_cast<Cost>(fault.code);
  if (rank == cta.min_of_all(rank) && fault.code != Fault::None) {
    PlanStatus& status = *p.status;
    status.code = static_cast<int>(fault.code);
    status.index = fault.index;
    status.value = fault.value;
    status.other = fault.other;
  }
}

// Clears entries from `first` on, which are not used. An entry has WORDS words.
template <int WORDS, class Cta>
void clear_entries(const Cta& cta, int4* entries, int first, int count) {
#pragma unroll 1
  for (int word = WORDS * first + cta.thread(); word < WORDS * count; word += Cta::THREADS)
    entries[word] = make_int4(0, 0, 0, 0);
}

// The device cannot return an error: it writes a status code and an empty work list. Kernels begin at workers, at items
// or at merges, so that all of them are cleared.
template <class Cta>
void reject_batch(Cta& cta, const PlanParams& p, const BatchFault& fault) {
  report_fault(cta, p, fault);
  clear_entries<START_WORDS>(cta, p.workers, 0, p.capacity_workers);
  clear_entries<ITEM_WORDS>(cta, p.items, 0, p.capacity_items);
  clear_entries<MERGE_WORDS>(cta, p.merges, 0, p.capacity_merges);
}
