// attn_kv_pass: every key through the variant's key_transform, every value through its value_transform, and both from 8 bits to 16, once,
// before prefill reads them many times. Grid (ceil(total keys / KV_PASS_KEYS), ceil(kv_heads / KV_PASS_HEADS)), KV_PASS_THREADS threads. Reads p.k and
// p.v, ragged or paged; writes p.k_pre and p.v_pre, ragged: each where the cell says so.
#pragma once
#include "memory/address.cuh"
#include "abi/launch_params.cuh"
#include "softmax/score_element.cuh"
#include "memory/row.cuh"
#include "memory/kv_scales.cuh"

constexpr int KV_PASS_THREADS = 128;
constexpr int KV_PASS_LANES = row_lanes(HEAD_DIM > VALUE_DIM ? HEAD_DIM : VALUE_DIM);  // of one key
constexpr int KV_PASS_KEYS = KV_PASS_THREADS / KV_PASS_LANES;
// Heads of a thread: where a key is, and whatever else of its transform does not depend on the head, is found out once.
constexpr int KV_PASS_HEADS = HEAD_DIM > 256 || VALUE_DIM > 256 ? 1 : 4;

// A row as the hook rewrites it; where it takes the lanes of a key, half of what a lane holds is of each half of the row, so that the common rotation needs no other lane.
template <int DIM, bool HOOKED>
struct PassRowOf {
  static constexpr bool HALVES = HOOKED && HookRow<DIM>::IN_HALVES && HookRow<DIM>::LANES_OF_ROW == KV_PASS_LANES;
  using Row = LaneRow<KV_PASS_LANES, row_values(DIM), HALVES, DIM>;
};
template <int DIM, bool HOOKED>
using PassRow = typename PassRowOf<DIM, HOOKED>::Row;

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

// Eight elements of a row, in 16 bits each: a lane's, which of a row in halves are four of each.
template <class Row, class E>
inline uint4 load_eight(const E* row, int eight) {
  const E *here = row + Row::first() + 8 * eight, *other = row + Row::place(4);
  if constexpr (IS_FP8<E>) {
    auto f16s = [](unsigned four) { return uint2{fp8_to_f16<E>(four & 0xffff), fp8_to_f16<E>(four >> 16)}; };
    uint2 words;
    if constexpr (Row::IN_HALVES)
      words = {*reinterpret_cast<const unsigned*>(here), *reinterpret_cast<const unsigned*>(other)};
    else
      words = *reinterpret_cast<const uint2*>(here);
    uint2 low = f16s(words.x), high = f16s(words.y);
    return {low.x, low.y, high.x, high.y};
  } else if constexpr (Row::IN_HALVES) {
    uint2 low = *reinterpret_cast<const uint2*>(here), high = *reinterpret_cast<const uint2*>(other);
    return {low.x, low.y, high.x, high.y};
  } else {
    return *reinterpret_cast<const uint4*>(here);
  }
}

template <class Row>
inline void store_eight(unsigned short* row, int eight, uint4 words) {
  unsigned short* here = row + Row::first() + 8 * eight;
  if constexpr (Row::IN_HALVES) {
    *reinterpret_cast<uint2*>(here) = {words.x, words.y};
    *reinterpret_cast<uint2*>(row + Row::place(4)) = {words.z, words.w};
  } else {
    store_16(here, words);
  }
}

// Rows of DIM elements of some heads from one place to another; HOOKED: through a hook, which is shown what stored elements stand for, into elements To.
template <int DIM, bool HOOKED, class To, class Scale, class Hook>
inline void pass_rows(const Strided& from, KeyPlace place, const Strided& to, int token, int first_head, int end_head, Scale scale, Hook hook) {
  using Row = PassRow<DIM, HOOKED>;
  constexpr int EIGHTS = Row::VALUES_OF_LANE / 8;
  const KvElem* row = static_cast<const KvElem*>(from.data) + key_offset<KV_PAGED>(from, place);
  unsigned short* end = static_cast<unsigned short*>(to.data) + token * to.token;
  uint4 words[EIGHTS] = {}, next[EIGHTS] = {};
  auto load = [&](uint4(&of)[EIGHTS], int head) {
#pragma unroll
    for (int i = 0; i < EIGHTS; ++i)
      if (Row::holds()) of[i] = load_eight<Row>(row + head * from.head, i);
  };
  load(words, first_head);
  // A transform may be long: it is in the code once. The next row is on its way meanwhile.
#pragma unroll 1
  for (int head = first_head; head < end_head; ++head) {
    if (head + 1 < end_head) load(next, head + 1);
    if constexpr (HOOKED) {
      Row values;
      float stands_for = scale(head);
#pragma unroll
      for (int i = 0; i < EIGHTS; ++i) unpack<WeightElem>(values, words[i], i);
      values.map([&](int, float x) { return x * stands_for; });
      hook(values, head);
#pragma unroll
      for (int i = 0; i < EIGHTS; ++i) words[i] = pack_saturated<To>(values, i);
    }
#pragma unroll
    for (int i = 0; i < EIGHTS; ++i) {
      if (Row::holds()) store_eight<Row>(end + head * to.head, i, words[i]);
      words[i] = next[i];
    }
  }
}

extern "C" __global__ void __launch_bounds__(KV_PASS_THREADS, HEAD_DIM > 256 || VALUE_DIM > 256 ? 4 : 7)
    attn_kv_pass(const __grid_constant__ LaunchParams p, const __grid_constant__ Variant variant) {
  int first_head = blockIdx.y * KV_PASS_HEADS, end_head = min(first_head + KV_PASS_HEADS, p.kv_heads);
  int tokens = pass_tokens(p);
  if (blockIdx.x * KV_PASS_KEYS >= static_cast<unsigned>(tokens)) return;  // there may be room for more keys than there are
  // Threads past the end repeat the last key: row hooks shuffle, so a warp stays together.
  int token = min(static_cast<int>(blockIdx.x * KV_PASS_KEYS + threadIdx.x / KV_PASS_LANES), tokens - 1);
  auto [request, position] = pass_key(p, token);
  KvIndex at = kv_index(request, first_head, position);
  KeyPlace place = find_key<KV_PAGED>(p, request, KV_PAGED ? page_row(p, request) : nullptr, at.kv_pos);
  if constexpr (KEY_PRE_PASS)
    pass_rows<HEAD_DIM, Variant::HAS_KEY_TRANSFORM, LogitElem>(p.k, place, p.k_pre, token, first_head, end_head, [&](int head) { return key_scale(p, head); },
                                                               [&](auto& row, int head) {
                                                                 at.kv_head = head;
                                                                 if constexpr (Variant::HAS_KEY_TRANSFORM) variant.key_transform(row, at);
                                                               });
  if constexpr (VALUE_PRE_PASS)
    pass_rows<VALUE_DIM, Variant::HAS_VALUE_TRANSFORM, WeightElem>(p.v, place, p.v_pre, token, first_head, end_head, [&](int head) { return value_scale(p, head); },
                                                                   [&](auto& row, int head) {
                                                                     at.kv_head = head;
                                                                     if constexpr (Variant::HAS_VALUE_TRANSFORM) variant.value_transform(row, at);
                                                                   });
}
