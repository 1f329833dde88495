// The conversions of arch/element.cuh.
template <class E>
E from_float(float x);
template <class E>
unsigned pack2(float first, float second);
template <class E>
float2 unpack2(unsigned x);
template <class E>
unsigned fp8_to_f16(unsigned x);

// Every f16 as f32: a table, since compilers call a function for each conversion.
struct F16Table {
  float value[1 << 16];
  F16Table() {
    for (unsigned bits = 0; bits < 1 << 16; ++bits) value[bits] = static_cast<float>(of_word<_Float16>(bits));
  }
};
inline float float_of_f16(unsigned bits) {
  static const F16Table table;
  return table.value[bits & 0xffff];
}

inline float to_float(f16 x) { return float_of_f16(x.bits); }
template <>
inline bf16 from_float<bf16>(float x) {
  unsigned bits = __float_as_uint(x);
  return {static_cast<unsigned short>(x == x ? (bits + 0x7fff + (bits >> 16 & 1)) >> 16 : bits >> 16 | 0x40)};
}
template <>
inline f16 from_float<f16>(float x) {
  return {static_cast<unsigned short>(to_word(static_cast<_Float16>(x)))};
}
template <>
inline unsigned pack2<bf16>(float first, float second) {
  return from_float<bf16>(first).bits | static_cast<unsigned>(from_float<bf16>(second).bits) << 16;
}
template <>
inline unsigned pack2<f16>(float first, float second) {
  return from_float<f16>(first).bits | static_cast<unsigned>(from_float<f16>(second).bits) << 16;
}
inline unsigned pack2_f16_satfinite(float first, float second) {
  auto clamped = [](float x) { return x > 65504.f ? 65504.f : x < -65504.f ? -65504.f : x; };
  return pack2<f16>(clamped(first), clamped(second));
}
template <>
inline float2 unpack2<f16>(unsigned x) {
  return {float_of_f16(x), float_of_f16(x >> 16)};
}
inline unsigned f16_of_e4m3(unsigned x) {
  unsigned magnitude = x & 0x7f, sign = x << 8 & 0x8000;
  if (magnitude == 0x7f) return sign | 0x7e00;
  int exponent = static_cast<int>(magnitude >> 3), mantissa = static_cast<int>(magnitude & 7) + (exponent > 0 ? 8 : 0);
  float value = std::ldexp(static_cast<float>(mantissa), std::max(exponent, 1) - 10);
  return sign | from_float<f16>(value).bits;
}
template <>
inline unsigned fp8_to_f16<e4m3>(unsigned x) {
  return f16_of_e4m3(x & 0xff) | f16_of_e4m3(x >> 8 & 0xff) << 16;
}
