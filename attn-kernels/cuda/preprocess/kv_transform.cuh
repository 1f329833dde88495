// The K/V preprocessing kernel, attn_kv_preprocess: applies the variant's K and V transforms and dequantises FP8 to 16
// bits, once, before prefill reads K and V many times. It reads p.k and p.v (ragged or paged) and writes p.k_pre and
// p.v_pre (ragged), each if the kernel traits ask for it. Grid (ceil(total keys / KV_PREPROCESS_KEYS), ceil(kv_heads /
// KV_PREPROCESS_HEADS)), KV_PREPROCESS_THREADS threads.
#pragma once
#include "memory/address.cuh"
#include "abi/launch_params.cuh"
#include "memory/kv_scales.cuh"
#include "memory/run_of_token.cuh"
#include "preprocess/dense_rows.cuh"

// The number of tokens. In a mixed launch they belong to segments, which requests may share.
inline int preprocessed_tokens(const KernelParams& p) {
  if constexpr (MIXED) return mixed(p).segment_ends[mixed(p).segment_count];
  return p.kv_indptr[p.batch];
}

// A key to preprocess. If several requests share it, `request` is the first.
struct PreprocessedKey {
  Request request;
  int position;
};

inline PreprocessedKey preprocessed_key(const KernelParams& p, int token) {
  if constexpr (MIXED) {
    KvSegment segment = mixed(p).segments[run_of_token(mixed(p).segment_ends + 1, mixed(p).segment_count, token)];
    return {request_of(segment), segment.kv_begin + token - segment.pass};
  }
  Request request = load_request(p, run_of_token(p.kv_indptr + 1, p.batch, token));
  return {request, token - request.kv_begin};
}

// Whether prefill reads keys from `begin` to `end`: in a mixed launch not where all requests have few rows.
inline bool prefill_reads(const KernelParams& p, int begin, int end) {
  if constexpr (MIXED && !SHARED_ROWS) {
    const int* ends = mixed(p).segment_ends + 1;
    int segment = run_of_token(ends, mixed(p).segment_count, begin);
    bool reads = false;
    do {
      int request = mixed(p).segments[segment].request;
      reads |= (p.qo_indptr[request + 1] - p.qo_indptr[request]) * p.group.divisor > DECODE_ROWS;
    } while (!reads && ends[segment++] < end);
    return reads;
  }
  return true;
}

extern "C" __global__ void __launch_bounds__(KV_PREPROCESS_THREADS, KV_PREPROCESS_CTAS)
    attn_kv_preprocess(const __grid_constant__ LaunchParams p, const __grid_constant__ Variant variant) {
  int first_head = blockIdx.y * KV_PREPROCESS_HEADS, end_head = min(first_head + KV_PREPROCESS_HEADS, p.kv_heads);
  int tokens = preprocessed_tokens(p), begin = static_cast<int>(blockIdx.x * KV_PREPROCESS_KEYS);
  if (begin >= tokens) return;  // the grid is sized for the capacity
  if (!prefill_reads(p, begin, min(begin + KV_PREPROCESS_KEYS, tokens))) return;
#pragma unroll 1
  for (int first = begin; first < begin + KV_PREPROCESS_KEYS; first += KV_PREPROCESS_KEYS_AT_ONCE) {
    // Threads past the end repeat the last key, since row hooks shuffle and need whole warps.
    int token = min(first + static_cast<int>(threadIdx.x) / KV_PREPROCESS_LANES, tokens - 1);
    auto [request, position] = preprocessed_key(p, token);
    KvIndex at = kv_index(request, first_head, position);
    KvLocation location = locate_key<KV_PAGED>(p, request, KV_PAGED ? page_table_row(p, request) : nullptr, at.kv_pos);
    if constexpr (K_PREPROCESSED)
      preprocess_rows<HEAD_DIM_QK, Variant::HAS_KEY_TRANSFORM, QkElem>(
          stored_keys(p, variant), location, p.k_pre, token, first_head, end_head,
          [&](int head) { return key_scale(p, head); },
          [&](auto& row, int head) {
            at.kv_head = head;
            if constexpr (Variant::HAS_KEY_TRANSFORM) variant.key_transform(row, at);
          });
    if constexpr (V_PREPROCESSED)
      preprocess_rows<HEAD_DIM_VO, Variant::HAS_VALUE_TRANSFORM, PvElem>(
          stored_values(p, variant), location, p.v_pre, token, first_head, end_head,
          [&](int head) { return value_scale(p, head); },
          [&](auto& row, int head) {
            at.kv_head = head;
            if constexpr (Variant::HAS_VALUE_TRANSFORM) variant.value_transform(row, at);
          });
  }
}
