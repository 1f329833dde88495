// Asks an mbarrier without waiting.
#pragma once
#include "arch/mbarrier.cuh"

// Whether the phase of this parity has completed, as `mbarrier_wait` would wait for it.
inline bool mbarrier_test(unsigned barrier, unsigned parity) {
  unsigned done;
  asm volatile(
      "{\n"
      ".reg .pred done;\n"
      "mbarrier.test_wait.parity.shared::cta.b64 done, [%1], %2;\n"
      "selp.u32 %0, 1, 0, done;\n"
      "}"
      : "=r"(done)
      : "r"(barrier), "r"(parity)
      : "memory");
  return done;
}
