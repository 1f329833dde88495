// Whether a batch whose lengths are in memory of the device is sound and within a capacity, without planning it. What is said of lengths is what the kernel
// that plans would say; of pages, all that are counted are looked at.
#pragma once
#include "planner/batch.cuh"

// Pages first .. first + count of the caller's table, by lanes or threads that start at `mine` and are `step` apart.
inline void check_entries(const PlanParams& p, long long first, int count, int mine, int step, Finding& finding) {
#pragma unroll 1
  for (int i = mine; i < count; i += step) {
    int page = p.page_indices[first + i];
    bool outside = static_cast<unsigned>(page) >= static_cast<unsigned>(p.num_pages);
    finding.note(outside, Fault::Page, static_cast<int>(first + i), page, static_cast<int>(p.page_stride));
  }
}

template <class Cta>
void check_batch(Cta& cta, const PlanParams& p) {
  Finding finding;
  int last_token = p.qo_indptr[p.requests], last_page = p.page_indptr ? p.page_indptr[p.requests] : 0;
  finding.note(p.requests == 0 && last_token != 0, Fault::QoStart, 0, last_token);
  finding.note(p.requests == 0 && last_page != 0, Fault::PageStart, 0, last_page);
  Cost keys_before = 0;
#pragma unroll 1
  for (int first = 0; first < p.requests; first += Cta::THREADS) {
    int request = first + cta.thread(), count = min(p.requests - first, Cta::THREADS);
    Lens lens = request < p.requests ? read_request(p, request, finding) : Lens{};
    Cost all, before = cta.sum_before(lens.keys, count, all);
    Cost end = keys_before + before + lens.keys;
    keys_before += all;
    bool many = end > static_cast<Cost>(p.most_kv_tokens);
    finding.note(many, Fault::KvTokens, request, static_cast<int>(min(end, Cost(0x7fffffff))));
  }
  // pages of lengths that are sound
  if (!cta.any(finding.fault != Fault::None)) {
    if (p.page_indptr) check_entries(p, 0, min(last_page, p.most_pages), cta.thread(), Cta::THREADS, finding);
    if (p.page_stride >= 0) {
#pragma unroll 1
      for (int request = cta.thread() / 32; request < p.requests; request += Cta::THREADS / 32)
        check_entries(p, request * p.page_stride, ceil_divide(p.kv_lens[request], p.page_size), cta.thread() % 32, 32, finding);
    }
  }
  bool wrong = cta.any(finding.fault != Fault::None);
  say_wrong(cta, p, finding);
  if (!wrong && cta.thread() == 0) p.status->code = static_cast<int>(Fault::None);
}
