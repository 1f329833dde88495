// Arithmetic on pairs of f16.
#pragma once

// Two products.
inline unsigned mul2_f16(unsigned a, unsigned b) {
  unsigned product;
  asm("mul.rn.f16x2 %0, %1, %2;" : "=r"(product) : "r"(a), "r"(b));
  return product;
}
