// Converts elements of every type to f32 and back like attn_core::tensor::Element: rounds to nearest even, saturates
// FP8 and keeps NaN. ElementVector loads and stores several elements at once.
#pragma once
#include "arch/element.cuh"
#include "ops/fp8.cuh"
#include "ops/index.cuh"

inline float decode(float x) { return x; }
inline float decode(f16 x) { return to_float(x); }
inline float decode(bf16 x) { return to_float(x); }
inline float decode(e4m3 x) { return lang::float_of_e4m3(x.bits); }
inline float decode(e5m2 x) { return to_float(f16{static_cast<unsigned short>(x.bits << 8)}); }

// COUNT elements in registers, packed into 32-bit words.
template <class E, int COUNT>
struct ElementVector {
  static constexpr int BYTES = COUNT * static_cast<int>(sizeof(E));
  static constexpr int WORDS = BYTES >= 4 ? BYTES / 4 : 1;
  unsigned words[WORDS];

  // `from` is aligned to the size of the vector, or to 16 bytes if that is smaller.
  void load(const void* from) {
    if constexpr (BYTES >= 16) {
#pragma unroll
      for (int i = 0; i < BYTES / 16; ++i) {
        uint4 w = static_cast<const uint4*>(from)[i];
        words[4 * i] = w.x, words[4 * i + 1] = w.y, words[4 * i + 2] = w.z, words[4 * i + 3] = w.w;
      }
    } else if constexpr (BYTES == 8) {
      uint2 w = *static_cast<const uint2*>(from);
      words[0] = w.x, words[1] = w.y;
    } else {
      words[0] = *static_cast<const Word<BYTES>*>(from);
    }
  }
  void store(void* to) const {
    if constexpr (BYTES >= 16) {
#pragma unroll
      for (int i = 0; i < BYTES / 16; ++i)
        static_cast<uint4*>(to)[i] = {words[4 * i], words[4 * i + 1], words[4 * i + 2], words[4 * i + 3]};
    } else if constexpr (BYTES == 8) {
      *static_cast<uint2*>(to) = {words[0], words[1]};
    } else {
      *static_cast<Word<BYTES>*>(to) = static_cast<Word<BYTES>>(words[0]);
    }
  }

  void decode_to(float (&x)[COUNT]) const {
#pragma unroll
    for (int i = 0; i < COUNT; ++i) {
      if constexpr (sizeof(E) == 4) {
        x[i] = __uint_as_float(words[i]);
      } else if constexpr (sizeof(E) == 2) {
        x[i] = decode(E{static_cast<unsigned short>(words[i / 2] >> 16 * (i % 2))});
      } else {
        x[i] = decode(E{static_cast<unsigned char>(words[i / 4] >> 8 * (i % 4))});
      }
    }
  }
  void encode(const float (&x)[COUNT]) {
    if constexpr (sizeof(E) == 4) {
#pragma unroll
      for (int i = 0; i < COUNT; ++i) words[i] = __float_as_uint(x[i]);
    } else if constexpr (COUNT == 1) {
      words[0] = encode_one(x[0]);
    } else if constexpr (sizeof(E) == 2) {
#pragma unroll
      for (int i = 0; i < COUNT / 2; ++i) words[i] = pack2<E>(x[2 * i], x[2 * i + 1]);
    } else {
#pragma unroll
      for (int i = 0; i < COUNT / 4; ++i)
        words[i] = fp8_pair<E>(x[4 * i], x[4 * i + 1]) | fp8_pair<E>(x[4 * i + 2], x[4 * i + 3]) << 16;
    }
  }

 private:
  static unsigned encode_one(float x) {
    if constexpr (sizeof(E) == 2)
      return from_float<E>(x).bits;
    else
      return fp8_pair<E>(x, 0.f) & 0xff;
  }
};

// Elements of a chunk: 16 bytes of the smaller of both types.
template <class A, class B>
constexpr int CHUNK = 16 / static_cast<int>(sizeof(A) < sizeof(B) ? sizeof(A) : sizeof(B));
