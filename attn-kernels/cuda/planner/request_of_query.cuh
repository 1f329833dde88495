// The request of each query, of which kernels have need whose tiles have rows of several requests.
#pragma once
#include "planner/params.cuh"

// Writes it up to the capacity, a warp a request. `lengths(request)` has its first query, and how many there are;
// `tokens`: all queries.
template <class Cta, class Lengths>
void write_request_of_query(const Cta& cta, const MixedPlanParams& p, int tokens, const Lengths& lengths) {
  constexpr int WARPS = Cta::THREADS / 32;
#pragma unroll 1
  for (int request = cta.thread() / 32; request < p.requests; request += WARPS) {
    auto of = lengths(request);
#pragma unroll 1
    for (int query = cta.thread() % 32; query < of.queries; query += 32)
      p.request_of_query[of.qo_token + query] = request;
  }
  cta.each(tokens, p.capacity_queries, [&](int query) { p.request_of_query[query] = 0; });
}
