// Moves a few neighbouring elements between memory and f32 registers. The CUDA-core kernels take all elements as f32.
#pragma once
#include "arch/ptx.cuh"

// Two, four, eight or 16 bytes of shared memory as words; two bytes in the low half of one.
template <int BYTES>
inline void load_shared_words(unsigned (&words)[(BYTES + 3) / 4], unsigned shared) {
  if constexpr (BYTES == 16) {
    uint4 four = load_shared_16(shared);
    words[0] = four.x, words[1] = four.y, words[2] = four.z, words[3] = four.w;
  } else if constexpr (BYTES == 8) {
    uint2 two = load_shared_8(shared);
    words[0] = two.x, words[1] = two.y;
  } else if constexpr (BYTES == 4) {
    words[0] = load_shared_4(shared);
  } else {
    words[0] = load_shared_2(shared);
  }
}

// COUNT elements of type E in words, as f32.
template <class E, int COUNT, int WORDS>
inline void to_f32(float (&x)[COUNT], const unsigned (&words)[WORDS]) {
#pragma unroll
  for (int i = 0; i < COUNT; ++i) {
    if constexpr (sizeof(E) == 4) {
      x[i] = __uint_as_float(words[i]);
    } else if (i % 2 == 0) {
      float2 pair;
      if constexpr (IS_FP8<E>)
        pair = unpack2<f16>(fp8_to_f16<E>(words[i / 4] >> 16 * (i / 2 % 2) & 0xffff));
      else
        pair = unpack2<E>(words[i / 2]);
      x[i] = pair.x;
      x[i + 1] = pair.y;
    }
  }
}

// COUNT elements from shared memory, at most 16 bytes.
template <class E, int COUNT>
inline void load_shared_f32(float (&x)[COUNT], unsigned shared) {
  constexpr int BYTES = COUNT * sizeof(E);
  unsigned words[(BYTES + 3) / 4];
  load_shared_words<BYTES>(words, shared);
  to_f32<E>(x, words);
}
