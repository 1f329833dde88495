// The K/V preprocessing kernel, attn_kv_preprocess: applies the variant's K and V transforms and dequantises FP8 to 16
// bits, once, before prefill reads K and V many times. It reads p.k and p.v (ragged or paged) and writes p.k_pre and
// p.v_pre (ragged), each if the kernel traits ask for it. Grid (ceil(total keys / KV_PREPROCESS_KEYS), ceil(kv_heads /
// KV_PREPROCESS_HEADS)), KV_PREPROCESS_THREADS threads.
#pragma once
#include "memory/address.cuh"
#include "abi/launch_params.cuh"
#include "softmax/score_element.cuh"
#include "memory/row.cuh"
#include "memory/kv_scales.cuh"
#ifdef ATTN_KV_FORMAT
#include "memory/packed_row.cuh"
#endif  // ATTN_KV_FORMAT

constexpr int KV_PREPROCESS_THREADS = 128;
constexpr int KV_PREPROCESS_LANES = row_lanes(HEAD_DIM_QK > HEAD_DIM_VO ? HEAD_DIM_QK : HEAD_DIM_VO);  // per key
constexpr int KV_PREPROCESS_KEYS = KV_PREPROCESS_THREADS / KV_PREPROCESS_LANES;
// Heads per thread: the location of a key and the part of its transform that is independent of the head are computed
// once.
constexpr int KV_PREPROCESS_HEADS = HEAD_DIM_QK > 256 || HEAD_DIM_VO > 256 ? 1 : 4;

// The row type that the hook sees. HALVES only if it takes all lanes of a key.
template <int DIM, bool HOOKED>
struct PreprocessRowOf {
  static constexpr bool HALVES = HOOKED && HookRow<DIM>::IN_HALVES && HookRow<DIM>::LANES_OF_ROW == KV_PREPROCESS_LANES;
  using Row = LaneRow<KV_PREPROCESS_LANES, row_values(DIM), HALVES, DIM>;
};
template <int DIM, bool HOOKED>
using PreprocessRow = typename PreprocessRowOf<DIM, HOOKED>::Row;

// Bisects for the run of tokens that contains a token, out of `count` runs. `ends`: one past the last token of each.
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

// The number of tokens to write. In a mixed launch they belong to segments, which requests may share.
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

// Loads eight of a lane's elements as 16-bit ones. With HALVES they are four of each half of the row.
template <class Row, class E>
inline uint4 load_eight(const E* row, int eight) {
  const E *here = row + Row::first() + 8 * eight, *other = row + Row::dim_of(4);
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
    *reinterpret_cast<uint2*>(row + Row::dim_of(4)) = {words.z, words.w};
  } else {
    store_16(here, words);
  }
}

#ifdef ATTN_KV_FORMAT
// Decodes the rows of a key for some heads, DIM elements each, to 16 bits. HOOKED: the rows pass through the hook after
// their scale is applied.
template <int DIM, bool HOOKED, class To, class Format, class Scale, class Hook>
inline void preprocess_rows(const Format& format, const Strided& codes, const Strided& side, KvLocation location,
                            const Strided& to, int token, int first_head, int end_head, Scale scale, Hook hook) {
  using Row = PreprocessRow<DIM, HOOKED>;
  const char* of_codes = static_cast<const char*>(codes.data) + key_offset<KV_PAGED>(codes, location);
  const char* of_side = static_cast<const char*>(side.data) + key_offset<KV_PAGED>(side, location);
  unsigned short* end = static_cast<unsigned short*>(to.data) + token * to.token;
  // The loads of two heads overlap. A transform may be long: its code exists once.
#pragma unroll(HOOKED ? 1 : 2)
  for (int head = first_head; head < end_head; ++head) {
    Row values;
    load_packed_row(values, format, GlobalBytes<8>(of_codes + head * codes.head),
                    GlobalBytes<4>(of_side + head * side.head), head);
    if constexpr (HOOKED) {
      float factor = scale(head);
      values.map([&](int, float x) { return x * factor; });
      hook(values, head);
    }
#pragma unroll
    for (int i = 0; i < Row::VALUES_OF_LANE / 8; ++i)
      if (Row::holds()) store_eight<Row>(end + head * to.head, i, pack_saturated<To>(values, i));
  }
}
#else  // ATTN_KV_FORMAT
// Copies the rows of a key for some heads, DIM elements each, widened to 16 bits. HOOKED: dequantised rows pass through
// the hook and are stored as elements To.
template <int DIM, bool HOOKED, class To, class Scale, class Hook>
inline void preprocess_rows(const Strided& from, KvLocation location, const Strided& to, int token, int first_head,
                            int end_head, Scale scale, Hook hook) {
  using Row = PreprocessRow<DIM, HOOKED>;
  constexpr int EIGHTS = Row::VALUES_OF_LANE / 8;
  const KvElem* row = static_cast<const KvElem*>(from.data) + key_offset<KV_PAGED>(from, location);
  unsigned short* end = static_cast<unsigned short*>(to.data) + token * to.token;
  uint4 words[EIGHTS] = {}, next[EIGHTS] = {};
  auto load = [&](uint4(&of)[EIGHTS], int head) {
#pragma unroll
    for (int i = 0; i < EIGHTS; ++i)
      if (Row::holds()) of[i] = load_eight<Row>(row + head * from.head, i);
  };
  load(words, first_head);
  // A transform may be long, so the loop is not unrolled: its code exists once. It overlaps the load of the next row.
#pragma unroll 1
  for (int head = first_head; head < end_head; ++head) {
    if (head + 1 < end_head) load(next, head + 1);
    if constexpr (HOOKED) {
      Row values;
      float head_scale = scale(head);
#pragma unroll
      for (int i = 0; i < EIGHTS; ++i) unpack<PvElem>(values, words[i], i);
      values.map([&](int, float x) { return x * head_scale; });
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
#endif  // ATTN_KV_FORMAT

#ifdef ATTN_KV_FORMAT
extern "C" __global__ void __launch_bounds__(KV_PREPROCESS_THREADS, 4)
#else  // ATTN_KV_FORMAT
extern "C" __global__ void __launch_bounds__(KV_PREPROCESS_THREADS, HEAD_DIM_QK > 256 || HEAD_DIM_VO > 256 ? 4 : 7)
#endif  // ATTN_KV_FORMAT
    attn_kv_preprocess(const __grid_constant__ LaunchParams p, const __grid_constant__ Variant variant) {
  int first_head = blockIdx.y * KV_PREPROCESS_HEADS, end_head = min(first_head + KV_PREPROCESS_HEADS, p.kv_heads);
  int tokens = preprocessed_tokens(p);
  if (blockIdx.x * KV_PREPROCESS_KEYS >= static_cast<unsigned>(tokens)) return;  // the grid is sized for the capacity
  // Threads past the end repeat the last key, since row hooks shuffle and need whole warps.
  int token = min(static_cast<int>(blockIdx.x * KV_PREPROCESS_KEYS + threadIdx.x / KV_PREPROCESS_LANES), tokens - 1);
  auto [request, position] = preprocessed_key(p, token);
  KvIndex at = kv_index(request, first_head, position);
  KvLocation location = locate_key<KV_PAGED>(p, request, KV_PAGED ? page_table_row(p, request) : nullptr, at.kv_pos);
  if constexpr (K_PREPROCESSED)
    preprocess_rows<HEAD_DIM_QK, Variant::HAS_KEY_TRANSFORM, QkElem>(
#ifdef ATTN_KV_FORMAT
        variant.key_format, p.k, kv_sides(p).k, location, p.k_pre, token, first_head, end_head,
        [&](int head) { return key_scale(p, head); },
#else  // ATTN_KV_FORMAT
        p.k, location, p.k_pre, token, first_head, end_head, [&](int head) { return key_scale(p, head); },
#endif  // ATTN_KV_FORMAT
        [&](auto& row, int head) {
          at.kv_head = head;
          if constexpr (Variant::HAS_KEY_TRANSFORM) variant.key_transform(row, at);
        });
  if constexpr (V_PREPROCESSED)
    preprocess_rows<HEAD_DIM_VO, Variant::HAS_VALUE_TRANSFORM, PvElem>(
#ifdef ATTN_KV_FORMAT
        variant.format_of_values(), p.v, kv_sides(p).v, location, p.v_pre, token, first_head, end_head,
        [&](int head) { return value_scale(p, head); },
#else  // ATTN_KV_FORMAT
        p.v, location, p.v_pre, token, first_head, end_head, [&](int head) { return value_scale(p, head); },
#endif  // ATTN_KV_FORMAT
        [&](auto& row, int head) {
          at.kv_head = head;
          if constexpr (Variant::HAS_VALUE_TRANSFORM) variant.value_transform(row, at);
        });
}
