// Conversion to e4m3, to nearest even.
inline unsigned e4m3_of(float x) {
  unsigned sign = __float_as_uint(x) >> 24 & 0x80;
  if (x != x) return sign | 0x7f;
  float magnitude = std::min(std::fabs(x), 448.f);
  // numbers below 2^-6 have the step of those at 2^-6
  int exponent = magnitude < 0.015625f ? -6 : std::ilogb(magnitude);
  // 8 to 16 steps of the exponent; fewer below the normal numbers
  int steps = static_cast<int>(std::nearbyint(std::ldexp(magnitude, 3 - exponent)));
  return sign | static_cast<unsigned>(steps + 8 * (exponent + 6));
}
inline unsigned pack4_e4m3(float first, float second, float third, float fourth) {
  return e4m3_of(first) | e4m3_of(second) << 8 | e4m3_of(third) << 16 | e4m3_of(fourth) << 24;
}
inline unsigned separate_register(unsigned x) { return x; }
inline void clear_in_place(float& x) { x = 0.f; }
