// attn_merge_*: finished states of disjoint keys become one, see attn-core/src/ops/merge.rs. Grid: rows over those of a CTA.
//
// All threads of a row read its log-sum-exps before any of them writes, since the output may be the first state.
#pragma once
#include "lang/types.cuh"
#include "ops/element.cuh"

// Outputs and log-sum-exps of states. Strides count elements.
struct MergeStates {
  void* o;
  float* lse;
  long long o_token, o_state, o_head;
  long long lse_token, lse_state, lse_head;
};

struct MergeParams {
  MergeStates many;           // the first, or any number
  MergeStates other;          // one more, where `others` is 1
  MergeStates out;            // no states; lse may be null, and o where rows have no values
  const unsigned char* mask;  // [tokens], null: all; where it is 0 nothing is written
  long long rows;             // tokens * heads
  RowShare share;
  int states;  // of `many`
  int others;  // 0 or 1
  int sums;    // outputs add up, and there is no lse
  int pad;
};

inline float state_lse(const MergeStates& s, long long token, int state, int head) {
  return s.lse[token * s.lse_token + state * s.lse_state + head * s.lse_head];
}

template <int COUNT>
inline void merge_rows(const MergeParams& p) {
  RowPlace at = row_place(p.share);
  long long row = static_cast<long long>(blockIdx.x) * p.share.rows + at.row;
  bool there = at.there && row < p.rows;
  Split place = split(there ? row : 0, p.share.heads);
  long long token = place.quotient;
  int head = place.rest, states = p.states + p.others;
  there = there && (!p.mask || p.mask[token]);
  auto lse = [&](int state) {
    return state < p.states ? state_lse(p.many, token, state, head) : state_lse(p.other, token, 0, head);
  };
  constexpr float NONE = -lang::F32_INFINITY;
  float most = NONE, total = 0.f;
  float first = 0.f, second = 0.f;  // weights, where there are two states
  if (there && !p.sums) {
    if (states == 2) {
      float a = lse(0), b = lse(1);
      most = fmaxf(a, b);
      first = a == NONE ? 0.f : expf(a - most), second = b == NONE ? 0.f : expf(b - most);
      total = first + second;
    } else {
#pragma unroll 4
      for (int state = 0; state < states; ++state) most = fmaxf(most, lse(state));
#pragma unroll 4
      for (int state = 0; state < states; ++state) {
        float x = lse(state);
        total += x == NONE ? 0.f : expf(x - most);
      }
    }
  }
  bool in_place = p.out.lse && (p.out.lse == p.many.lse || p.out.lse == p.other.lse);
  auto weight = [&](int state) {
    if (p.sums) return 1.f;
    if (states == 2) return state == 0 ? first : second;
    float x = lse(state);
    return x == NONE ? 0.f : expf(x - most);
  };
  if (in_place) __syncthreads();  // in place there are two states, which are read
  if (!there) return;
  float share = p.sums ? 1.f : total == 0.f ? 0.f : 1.f / total;
  int chunks = p.out.o ? static_cast<int>(p.share.chunks.divisor) : 0;
  for (int chunk = at.chunk; chunk < chunks; chunk += OP_THREADS) {
    float sum[COUNT] = {};
#pragma unroll 4
    for (int state = 0; state < states; ++state) {
      const MergeStates& from = state < p.states ? p.many : p.other;
      float w = weight(state);
      if (w == 0.f) continue;  // what the output holds does not matter
      long long offset = token * from.o_token + (state < p.states ? state : 0) * from.o_state + head * from.o_head;
      Loaded<MergeElem, COUNT> loaded;
      loaded.load(static_cast<const MergeElem*>(from.o) + offset + chunk * COUNT);
      float x[COUNT];
      loaded.decode_to(x);
#pragma unroll
      for (int i = 0; i < COUNT; ++i) sum[i] = fmaf(w, x[i], sum[i]);
    }
#pragma unroll
    for (int i = 0; i < COUNT; ++i) sum[i] *= share;
    Loaded<MergeElem, COUNT> result;
    result.encode(sum);
    result.store(static_cast<MergeElem*>(p.out.o) + token * p.out.o_token + head * p.out.o_head + chunk * COUNT);
  }
  if (at.chunk == 0 && p.out.lse)
    p.out.lse[token * p.out.lse_token + head * p.out.lse_head] = total == 0.f ? NONE : most + logf(total);
}

extern "C" __global__ void __launch_bounds__(OP_THREADS, 4) attn_merge_wide(const __grid_constant__ MergeParams p) {
  merge_rows<16 / sizeof(MergeElem)>(p);
}
// For rows that are not whole chunks of 16 bytes, or not aligned to them.
extern "C" __global__ void __launch_bounds__(OP_THREADS, 4) attn_merge_narrow(const __grid_constant__ MergeParams p) { merge_rows<1>(p); }
