// Checks that a batch whose lengths are in device memory is valid and within a capacity, without planning it.
// It reports the same faults of lengths as the planner kernel, and checks every page that the lengths refer to.
#pragma once
#include "planner/status.cuh"

// Checks the entries first .. first + count of the caller's page table. This thread checks every `step`-th from `own`
// on.
inline void check_entries(const PlanParams& p, long long first, int count, int own, int step, BatchFault& fault) {
#pragma unroll 1
  for (int i = own; i < count; i += step) {
    int page = p.page_indices[first + i];
    bool outside = static_cast<unsigned>(page) >= static_cast<unsigned>(p.num_pages);
    fault.note(outside, Fault::Page, static_cast<int>(first + i), page, static_cast<int>(p.page_stride));
  }
}

template <class Cta>
void check_batch(Cta& cta, const PlanParams& p) {
  BatchFault fault;
  int last_token = p.qo_indptr[p.requests], last_page = p.page_indptr ? p.page_indptr[p.requests] : 0;
  fault.note(p.requests == 0 && last_token != 0, Fault::QoStart, 0, last_token);
  fault.note(p.requests == 0 && last_page != 0, Fault::PageStart, 0, last_page);
  auto keys_of = [&](int request) { return read_request(p, request, fault).keys; };
  cta.scan(p.requests, keys_of, [&](int request, Cost before, Cost keys) {
    Cost end = before + keys;
    fault.note(end > static_cast<Cost>(p.max_kv_tokens), Fault::KvTokens, request, clamped(end));
  });
  // pages are checked only if the lengths are valid
  if (!cta.any(fault.code != Fault::None)) {
    if (p.page_indptr) check_entries(p, 0, min(last_page, p.max_page_entries), cta.thread(), Cta::THREADS, fault);
    if (p.page_stride >= 0) {
#pragma unroll 1
      for (int request = cta.thread() / 32; request < p.requests; request += Cta::THREADS / 32)
        check_entries(p, request * p.page_stride, ceil_divide(p.kv_lens[request], p.page_size), cta.thread() % 32, 32,
                      fault);
    }
  }
  bool wrong = cta.any(fault.code != Fault::None);
  report_fault(cta, p, fault);
  if (!wrong && cta.thread() == 0) p.status->code = static_cast<int>(Fault::None);
}
