// The row that a KV format encodes, and the bytes that it writes; a warp processes a row together. The results are
// those of attn-core/src/lang/kv_format/packed.rs, to the bit.
#pragma once
#include "lang/packed.cuh"
#include "memory/row.cuh"
#include "ops/fp8.cuh"

// A row in f32 in shared memory.
struct EncodeRow {
  const float* x;
  int values;

  static int lane() { return threadIdx.x % 32; }
  int dim() const { return values; }

  float max_abs(int first, int len) const {
    // as integers: a NaN is larger than every number
    unsigned most = 0;
    for (int i = lane(); i < len; i += 32) most = max_of(most, lang::to_bits(x[first + i]) & 0x7fffffffu);
    return lang::from_bits(reduce_neighbours<32>(most, max_of));
  }
  float max(int first, int len) const {
    return fold(first, len, -lang::F32_INFINITY, [](float most, float y) { return y > most || y != y ? y : most; });
  }
  float min(int first, int len) const {
    return fold(first, len, lang::F32_INFINITY, [](float least, float y) { return y < least || y != y ? y : least; });
  }
  // The sum of of(d, x) as a tree, padded with zeros to a power of two: the upper half is added to the lower one until
  // one is left. A lane has elements i, i + 32, ..., so that halves below 32 lie in other lanes.
  template <class F>
  float sum(int first, int len, const F& of) const {
    constexpr int MOST = 32;
    float sums[MOST];
#pragma unroll
    for (int j = 0; j < MOST; ++j) {
      int i = lane() + 32 * j;
      sums[j] = i < len ? of(first + i, x[first + i]) : 0.f;
    }
#pragma unroll
    for (int half = MOST / 2; half > 0; half /= 2)
#pragma unroll
      for (int j = 0; j < half; ++j) sums[j] += sums[j + half];
    return sum_of_neighbours<32>(sums[0]);
  }
  float sum_sq(int first, int len) const {
    return sum(first, len, [](int, float x) { return lang::mul_rn(x, x); });
  }

 private:
  static unsigned max_of(unsigned a, unsigned b) { return a > b ? a : b; }
  template <class F>
  float fold(int first, int len, float start, F f) const {
    float result = start;
    for (int i = lane(); i < len; i += 32) result = f(result, x[first + i]);
    return reduce_neighbours<32>(result, f) + 0.f;  // a negative zero becomes positive, in any order
  }
};

// The bytes of a row in global memory. All lanes pass the same numbers, and one writes.
struct PackedOut {
  unsigned char* p;

  void set_u8(int at, unsigned x) { set(at, static_cast<unsigned char>(x)); }
  void set_u16(int at, unsigned x) { set(at, static_cast<unsigned short>(x)); }
  void set_u32(int at, unsigned x) { set(at, x); }
  void set_f32(int at, float x) { set(at, x == x ? lang::to_bits(x) : 0x7fc00000u); }
  void set_f16(int at, float x) { set_u16(at, x == x ? from_float<f16>(x).bits : 0x7e00); }
  void set_bf16(int at, float x) { set_u16(at, x == x ? from_float<bf16>(x).bits : 0x7fc0); }
  void set_e4m3(int at, float x) { set_u8(at, e4m3_of_float(x)); }

  template <class Row, class F>
  void pack4(int at, const Row& x, int first, int len, const F& code) {
    pack<4>(at, x, first, len, code);
  }
  template <class Row, class F>
  void pack8(int at, const Row& x, int first, int len, const F& code) {
    pack<8>(at, x, first, len, code);
  }
  template <class Row, class F>
  void pack16(int at, const Row& x, int first, int len, const F& code) {
    pack<16>(at, x, first, len, code);
  }

 private:
  template <class T>
  void set(int at, T x) {
    if (threadIdx.x % 32 == 0) *reinterpret_cast<T*>(p + at) = x;
  }
  // A lane writes whole words: a run of eight elements has at least one.
  template <int BITS, class Row, class F>
  void pack(int at, const Row& x, int first, int len, const F& code) {
    constexpr int OF_WORD = 32 / BITS;
    bool aligned = reinterpret_cast<unsigned long long>(p + at) % 4 == 0;
    for (int word = threadIdx.x % 32; word < len / OF_WORD; word += 32) {
      unsigned bits = 0;
#pragma unroll
      for (int i = 0; i < OF_WORD; ++i) {
        int d = first + word * OF_WORD + i;
        bits |= (code(d, x.x[d]) & ((1u << BITS) - 1)) << BITS * i;
      }
      unsigned char* to = p + at + 4 * word;
      if (aligned) {
        *reinterpret_cast<unsigned*>(to) = bits;
      } else {
#pragma unroll
        for (int i = 0; i < 4; ++i) to[i] = static_cast<unsigned char>(bits >> 8 * i);
      }
    }
  }
};
