// The arithmetic of arch/f16x2.cuh.
inline unsigned mul2_f16(unsigned a, unsigned b) {
  float2 x = unpack2<f16>(a), y = unpack2<f16>(b);
  return pack2<f16>(x.x * y.x, x.y * y.y);
}
