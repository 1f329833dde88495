// attn_kv_pass: every key through the variant's key_transform, every value through its value_transform, and both from 8 bits to 16, once,
// before prefill reads them many times. Grid (ceil(total keys / KV_PASS_KEYS), kv_heads), KV_PASS_THREADS threads. Reads p.k and p.v, ragged
// or paged; writes p.k_pre and p.v_pre, ragged: each where the cell says so.
#pragma once
#include "address.cuh"
#include "launch_params.cuh"
#include "logit_elem.cuh"
#include "rows.cuh"
#include "scales.cuh"

constexpr int KV_PASS_THREADS = 128;
constexpr int KV_PASS_LANES = row_lanes(HEAD_DIM > VALUE_DIM ? HEAD_DIM : VALUE_DIM);  // of one key
constexpr int KV_PASS_AT_ONCE = KV_PASS_THREADS / KV_PASS_LANES;
constexpr int KV_PASS_KEYS = 4 * KV_PASS_AT_ONCE;

// Which of `count` runs of tokens a token is in; `ends`: one past the last of each.
inline int run_of_token(const int* ends, int count, int token) {
  int first = 0, last = count - 1;
  while (first < last) {
    int middle = (first + last) / 2;
    if (token < ends[middle])
      last = middle;
    else
      first = middle + 1;
  }
  return first;
}

// Tokens that the pass writes; those of a mixed launch are of segments, which requests may share.
inline int pass_tokens(const KernelParams& p) {
  if constexpr (MIXED) return mixed(p).segment_ends[mixed(p).segment_count];
  return p.kv_indptr[p.batch];
}

// A key of the pass. Of several requests that share it, `request` is the first.
struct PassKey {
  Request request;
  int position;
};

inline PassKey pass_key(const KernelParams& p, int token) {
  if constexpr (MIXED) {
    MixedSegment segment = mixed(p).segments[run_of_token(mixed(p).segment_ends + 1, mixed(p).segment_count, token)];
    return {request_of(segment), segment.kv_begin + token - segment.pass};
  }
  Request request = load_request(p, run_of_token(p.kv_indptr + 1, p.batch, token));
  return {request, token - request.kv_begin};
}

// Eight elements of a row, in 16 bits each.
template <class E>
inline uint4 load_eight(const E* row) {
  if constexpr (IS_FP8<E>) {
    uint2 eight = *reinterpret_cast<const uint2*>(row);
    return {fp8_to_f16<E>(eight.x & 0xffff), fp8_to_f16<E>(eight.x >> 16), fp8_to_f16<E>(eight.y & 0xffff), fp8_to_f16<E>(eight.y >> 16)};
  } else {
    return *reinterpret_cast<const uint4*>(row);
  }
}

// A row of DIM elements from one place to another; HOOKED: through a hook, which is shown what stored elements stand for, into elements To.
template <int DIM, bool HOOKED, class To, class Hook>
inline void pass_row(const Strided& from, KeyPlace place, const Strided& to, int token, int kv_head, float scale, Hook hook) {
  using Row = RowOf<DIM, KV_PASS_LANES>;
  constexpr int EIGHTS = Row::VALUES_OF_LANE / 8;
  const KvElem* row = static_cast<const KvElem*>(from.data) + kv_head * from.head + key_offset<KV_PAGED>(from, place) + Row::first();
  uint4 words[EIGHTS] = {};
#pragma unroll
  for (int i = 0; i < EIGHTS; ++i)
    if (Row::holds()) words[i] = load_eight<KvElem>(row + 8 * i);
  if constexpr (HOOKED) {
    Row values;
#pragma unroll
    for (int i = 0; i < EIGHTS; ++i) unpack<WeightElem>(values, words[i], i);
    values.map([&](int, float x) { return x * scale; });
    hook(values);
#pragma unroll
    for (int i = 0; i < EIGHTS; ++i) words[i] = pack_saturated<To>(values, i);
  }
  if (!Row::holds()) return;
  unsigned short* end = static_cast<unsigned short*>(to.data) + kv_head * to.head + token * to.token + Row::first();
#pragma unroll
  for (int i = 0; i < EIGHTS; ++i) store_16(end + 8 * i, words[i]);
}

// Many threads with a key each, rather than few with several: a transform has latencies of its own to hide.
extern "C" __global__ void __launch_bounds__(KV_PASS_THREADS, HEAD_DIM > 256 || VALUE_DIM > 256 ? 4 : 10)
    attn_kv_pass(const __grid_constant__ LaunchParams p, const __grid_constant__ Variant variant) {
  int kv_head = blockIdx.y;
  int tokens = pass_tokens(p);
  if (blockIdx.x * KV_PASS_KEYS >= static_cast<unsigned>(tokens)) return;  // there may be room for more keys than there are
#pragma unroll 1
  for (int first = 0; first < KV_PASS_KEYS; first += KV_PASS_AT_ONCE) {
    // Threads past the end repeat the last key: row hooks shuffle, so a warp stays together.
    int token = min(static_cast<int>(blockIdx.x * KV_PASS_KEYS + first + threadIdx.x / KV_PASS_LANES), tokens - 1);
    auto [request, position] = pass_key(p, token);
    KvIndex at = kv_index(request, kv_head, position);
    KeyPlace place = find_key<KV_PAGED>(p, request, KV_PAGED ? page_row(p, request) : nullptr, at.kv_pos);
    if constexpr (KEY_PRE_PASS)
      pass_row<HEAD_DIM, Variant::HAS_KEY_TRANSFORM, LogitElem>(p.k, place, p.k_pre, token, kv_head, key_scale(p, kv_head), [&](auto& row) {
        if constexpr (Variant::HAS_KEY_TRANSFORM) variant.key_transform(row, at);
      });
    if constexpr (VALUE_PRE_PASS)
      pass_row<VALUE_DIM, Variant::HAS_VALUE_TRANSFORM, WeightElem>(p.v, place, p.v_pre, token, kv_head, value_scale(p, kv_head), [&](auto& row) {
        if constexpr (Variant::HAS_VALUE_TRANSFORM) variant.value_transform(row, at);
      });
  }
}
