// Kernel entries attn_merge_*: merge finalized states (O, LSE) of disjoint keys into one. attn-core/src/ops/merge.rs is
// the CPU reference. Grid: rows / rows per CTA.
//
// All threads of a row read its log-sum-exps before any of them writes, since the output may alias the first state.
#pragma once
#include "lang/types.cuh"
#include "ops/element.cuh"
#include "ops/merge_params.cuh"

inline float state_lse(const MergeStates& s, long long token, int state, int head) {
  return s.lse[token * s.lse_token + state * s.lse_state + head * s.lse_head];
}

template <int COUNT>
inline void merge_rows(const MergeParams& p) {
  RowChunk at = row_chunk(p.share);
  long long row = static_cast<long long>(blockIdx.x) * p.share.rows + at.row;
  bool exists = at.exists && row < p.rows;
  DivMod token_head = divmod(exists ? row : 0, p.share.heads);
  long long token = token_head.quotient;
  int head = token_head.remainder, states = p.states + p.others;
  exists = exists && (!p.mask || p.mask[token]);
  auto lse = [&](int state) {
    return state < p.states ? state_lse(p.many, token, state, head) : state_lse(p.other, token, 0, head);
  };
  constexpr float NONE = -lang::F32_INFINITY;
  float max_lse = NONE, total = 0.f;
  auto scaled = [&](float x) { return x == NONE ? 0.f : expf(x - max_lse); };
  float first = 0.f, second = 0.f;  // the weights if there are two states
  if (exists && !p.sums) {
    if (states == 2) {
      float a = lse(0), b = lse(1);
      max_lse = fmaxf(a, b);
      first = scaled(a), second = scaled(b);
      total = first + second;
    } else {
#pragma unroll 4
      for (int state = 0; state < states; ++state) max_lse = fmaxf(max_lse, lse(state));
#pragma unroll 4
      for (int state = 0; state < states; ++state) total += scaled(lse(state));
    }
  }
  bool in_place = p.out.lse && (p.out.lse == p.many.lse || p.out.lse == p.other.lse);
  auto weight = [&](int state) {
    if (p.sums) return 1.f;
    if (states == 2) return state == 0 ? first : second;
    return scaled(lse(state));
  };
  if (in_place) __syncthreads();  // an in-place merge has two states; their lse has been read
  if (!exists) return;
  float share = p.sums ? 1.f : total == 0.f ? 0.f : 1.f / total;
  int chunks = p.out.o ? static_cast<int>(p.share.chunks.divisor) : 0;
  for (int chunk = at.chunk; chunk < chunks; chunk += OP_THREADS) {
    float sum[COUNT] = {};
#pragma unroll 4
    for (int state = 0; state < states; ++state) {
      const MergeStates& from = state < p.states ? p.many : p.other;
      float w = weight(state);
      if (w == 0.f) continue;  // the output may be uninitialised
      long long offset = token * from.o_token + (state < p.states ? state : 0) * from.o_state + head * from.o_head;
      ElementVector<MergeElem, COUNT> loaded;
      loaded.load(static_cast<const MergeElem*>(from.o) + offset + chunk * COUNT);
      float x[COUNT];
      loaded.decode_to(x);
#pragma unroll
      for (int i = 0; i < COUNT; ++i) sum[i] = fmaf(w, x[i], sum[i]);
    }
#pragma unroll
    for (int i = 0; i < COUNT; ++i) sum[i] *= share;
    ElementVector<MergeElem, COUNT> result;
    result.encode(sum);
    result.store(static_cast<MergeElem*>(p.out.o) + token * p.out.o_token + head * p.out.o_head + chunk * COUNT);
  }
  if (at.chunk == 0 && p.out.lse)
    p.out.lse[token * p.out.lse_token + head * p.out.lse_head] = total == 0.f ? NONE : max_lse + logf(total);
}

extern "C" __global__ void __launch_bounds__(OP_THREADS, 4) attn_merge_wide(const __grid_constant__ MergeParams p) {
  merge_rows<16 / sizeof(MergeElem)>(p);
}
// For rows that are not multiples of 16 bytes or not aligned to them.
extern "C" __global__ void __launch_bounds__(OP_THREADS, 4) attn_merge_narrow(const __grid_constant__ MergeParams p) {
  merge_rows<1>(p);
}
