// K/V preprocessing of dense rows: 16-bit elements or FP8. preprocess/format_rows.cuh takes its place over rows of KV
// formats.
#pragma once
#include "abi/launch_params.cuh"
#include "memory/address.cuh"
#include "preprocess/row.cuh"
#include "softmax/score_element.cuh"

// CTAs of an SM.
constexpr int KV_PREPROCESS_CTAS = HEAD_DIM_QK > 256 || HEAD_DIM_VO > 256 ? 4 : 7;

inline const Strided& stored_keys(const LaunchParams& p, const Variant&) { return p.k; }
inline const Strided& stored_values(const LaunchParams& p, const Variant&) { return p.v; }

// Loads eight of a lane's elements as 16-bit ones. With HALVES they are four of each half of the row.
template <class Row, class E>
inline uint4 load_eight(const E* row, int eight) {
  const E *here = row + Row::first() + 8 * eight, *other = row + Row::dim_of(4);
  if constexpr (IS_FP8<E>) {
    if constexpr (Row::IN_HALVES)
      return widened<E>({*reinterpret_cast<const unsigned*>(here), *reinterpret_cast<const unsigned*>(other)});
    else
      return widened<E>(*reinterpret_cast<const uint2*>(here));
  } else if constexpr (Row::IN_HALVES) {
    uint2 low = *reinterpret_cast<const uint2*>(here), high = *reinterpret_cast<const uint2*>(other);
    return {low.x, low.y, high.x, high.y};
  } else {
    return *reinterpret_cast<const uint4*>(here);
  }
}

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
