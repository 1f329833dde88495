// K/V preprocessing of rows of KV formats, in place of preprocess/dense_rows.cuh.
#pragma once
#include "abi/launch_params.cuh"
#include "memory/address.cuh"
#include "memory/packed_row.cuh"
#include "preprocess/row.cuh"
#include "softmax/score_element.cuh"

constexpr int KV_PREPROCESS_CTAS = 4;  // of an SM

// Rows of keys or of values: their format, their codes and their side data.
template <class Format>
struct FormatRows {
  const Format& format;
  const Strided &codes, &side;
};
template <class Format>
inline FormatRows<Format> format_rows(const Format& format, const Strided& codes, const Strided& side) {
  return {format, codes, side};
}
inline auto stored_keys(const LaunchParams& p, const Variant& variant) {
  return format_rows(variant.key_format, p.k, kv_sides(p).k);
}
inline auto stored_values(const LaunchParams& p, const Variant& variant) {
  return format_rows(variant.format_of_values(), p.v, kv_sides(p).v);
}

// Decodes the rows of a key for some heads, DIM elements each, to 16 bits. HOOKED: the rows pass through the hook after
// their scale is applied.
template <int DIM, bool HOOKED, class To, class Format, class Scale, class Hook>
inline void preprocess_rows(FormatRows<Format> from, KvLocation location, const Strided& to, int token, int first_head,
                            int end_head, Scale scale, Hook hook) {
  using Row = PreprocessRow<DIM, HOOKED>;
  const char* of_codes = static_cast<const char*>(from.codes.data) + key_offset<KV_PAGED>(from.codes, location);
  const char* of_side = static_cast<const char*>(from.side.data) + key_offset<KV_PAGED>(from.side, location);
  unsigned short* end = static_cast<unsigned short*>(to.data) + token * to.token;
  // The loads of two heads overlap. A transform may be long: its code exists once.
#pragma unroll(HOOKED ? 1 : 2)
  for (int head = first_head; head < end_head; ++head) {
    Row values;
    load_packed_row(values, from.format, GlobalBytes<8>(of_codes + head * from.codes.head),
                    GlobalBytes<4>(of_side + head * from.side.head), head);
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
