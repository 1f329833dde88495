// attn_key_pass: every key through the variant's key_transform, once, before prefill reads it many times.
// Grid (ceil(total keys / KEY_PASS_KEYS), kv_heads), KEY_PASS_THREADS threads. Reads p.k, ragged or paged; writes p.k_pre, ragged.
#pragma once
#include "address.cuh"
#include "rows.cuh"

constexpr int KEY_PASS_THREADS = 128;
constexpr int KEY_PASS_LANES = HEAD_DIM / 8;  // of one key, 16 bytes each
constexpr int KEY_PASS_AT_ONCE = KEY_PASS_THREADS / KEY_PASS_LANES;
constexpr int KEY_PASS_STEPS = 4;  // keys of a thread: so many loads are under way
constexpr int KEY_PASS_KEYS = KEY_PASS_AT_ONCE * KEY_PASS_STEPS;

// The request that a packed key token belongs to.
inline int request_of_token(const KernelParams& p, int token) {
  int first = 0, last = p.batch - 1;
  while (first < last) {
    const int middle = (first + last) / 2;
    if (token < p.kv_indptr[middle + 1])
      last = middle;
    else
      first = middle + 1;
  }
  return first;
}

extern "C" __global__ void __launch_bounds__(KEY_PASS_THREADS)
    attn_key_pass(const __grid_constant__ KernelParams p, const __grid_constant__ Variant variant) {
  const int kv_head = blockIdx.y;
  const int tokens = p.kv_indptr[p.batch];
  const int offset = 8 * (threadIdx.x % KEY_PASS_LANES);
  const KvElem* from = static_cast<const KvElem*>(p.k.data) + kv_head * p.k.head + offset;
  KvIndex at[KEY_PASS_STEPS];
  uint4 words[KEY_PASS_STEPS];
#pragma unroll
  for (int i = 0; i < KEY_PASS_STEPS; ++i) {
    // Threads past the end repeat the last key: row hooks shuffle, so a warp stays together.
    const int token = min((int)(blockIdx.x * KEY_PASS_KEYS + i * KEY_PASS_AT_ONCE + threadIdx.x / KEY_PASS_LANES), tokens - 1);
    const Request request = load_request(p, request_of_token(p, token));
    at[i] = kv_index(request, kv_head, token - request.kv_begin);
    const KeyPlace place = find_key<KV_PAGED>(p, request, KV_PAGED ? page_row(p, request) : nullptr, at[i].kv_pos);
    words[i] = *reinterpret_cast<const uint4*>(from + key_offset<KV_PAGED>(p.k, place));
  }
#pragma unroll
  for (int i = 0; i < KEY_PASS_STEPS; ++i) {
    LaneRow<KEY_PASS_LANES, 8> key;
    unpack<KvElem>(key, words[i]);
    variant.key_transform(key, at[i]);
    KvElem* to = static_cast<KvElem*>(p.k_pre.data) + at[i].kv_token * p.k_pre.token + kv_head * p.k_pre.head + offset;
    *reinterpret_cast<uint4*>(to) = pack<KvElem>(key);
  }
}
