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

// Clears the items from `first` on, which are not used.
template <class Cta>
void clear_items(const Cta& cta, const PlanParams& p, int first) {
  int4* rest = p.items + ITEM_WORDS * first;
#pragma unroll 1
  for (int word = cta.thread(); word < ITEM_WORDS * (p.capacity_items - first); word += Cta::THREADS)
    rest[word] = make_int4(0, 0, 0, 0);
}

// The device cannot return an error: it writes a status code and an empty work list.
template <class Cta>
void reject_batch(Cta& cta, const PlanParams& p, const BatchFault& fault) {
  report_fault(cta, p, fault);
#pragma unroll 1
  for (int word = cta.thread(); word < START_WORDS * p.capacity_workers; word += Cta::THREADS)
    p.workers[word] = make_int4(0, 0, 0, 0);
  if (p.capacity_workers == 0) clear_items(cta, p, 0);
}
