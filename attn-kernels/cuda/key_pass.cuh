// attn_key_pass: every key through the variant's key_transform, once, before prefill reads it many times.
// Grid (ceil(total keys / KEY_PASS_KEYS), kv_heads), KEY_PASS_THREADS threads. Reads p.k, ragged or paged; writes p.k_pre,
// ragged.
#pragma once
#include "address.cuh"
#include "logit_elem.cuh"
#include "rows.cuh"

constexpr int KEY_PASS_THREADS = 128;
constexpr int KEY_PASS_LANES = HEAD_DIM / 8;  // of one key, 16 bytes each
constexpr int KEY_PASS_AT_ONCE = KEY_PASS_THREADS / KEY_PASS_LANES;
constexpr int KEY_PASS_KEYS = 4 * KEY_PASS_AT_ONCE;

// The request that a packed key token belongs to.
inline int request_of_token(const KernelParams& p, int token) {
  int first = 0, last = p.batch - 1;
  while (first < last) {
    int middle = (first + last) / 2;
    if (token < p.kv_indptr[middle + 1])
      last = middle;
    else
      first = middle + 1;
  }
  return first;
}

// Many threads with a key each, rather than few with several: a transform has latencies of its own to hide.
extern "C" __global__ void __launch_bounds__(KEY_PASS_THREADS, 10)
    attn_key_pass(const __grid_constant__ KernelParams p, const __grid_constant__ Variant variant) {
  int kv_head = blockIdx.y;
  int tokens = p.kv_indptr[p.batch];
  const KvElem* from = static_cast<const KvElem*>(p.k.data) + kv_head * p.k.head;
  LogitElem* to = static_cast<LogitElem*>(p.k_pre.data) + kv_head * p.k_pre.head;
#pragma unroll 1
  for (int first = 0; first < KEY_PASS_KEYS; first += KEY_PASS_AT_ONCE) {
    // Threads past the end repeat the last key: row hooks shuffle, so a warp stays together.
    int token = min(static_cast<int>(blockIdx.x * KEY_PASS_KEYS + first + threadIdx.x / KEY_PASS_LANES), tokens - 1);
    Request request = load_request(p, request_of_token(p, token));
    KvIndex at = kv_index(request, kv_head, token - request.kv_begin);
    KeyPlace place = find_key<KV_PAGED>(p, request, KV_PAGED ? page_row(p, request) : nullptr, at.kv_pos);
    LaneRow<KEY_PASS_LANES, 8> key;
    unpack<KvElem>(key, *reinterpret_cast<const uint4*>(from + key_offset<KV_PAGED>(p.k, place) + key.first()));
    variant.key_transform(key, at);
    *reinterpret_cast<uint4*>(to + token * p.k_pre.token + key.first()) = pack_for_logits(key);
  }
}
