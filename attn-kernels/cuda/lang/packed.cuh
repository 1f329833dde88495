// The bytes of stored rows of a KV format, as generated text reads them. Offsets are in bytes; a number of n bytes lies
// at a multiple of n. attn-core/src/lang/kv_format/packed.rs is the CPU's.
#pragma once
#include "lang/exact.cuh"
#include "lang/bits.cuh"

// Eight e4m3 and what they are multiplied by: a kernel makes an array of them, or scales them in f16
// (memory/f16_eight.cuh).
struct ScaledE4m3 {
  Array<lang::u32, 2> codes;
  float scale;

  ATTN_FN operator Array<float, 8>() const {
    Array<float, 8> x;
    ATTN_UNROLL
    for (int i = 0; i < 8; ++i) x.x[i] = lang::mul_rn(lang::float_of_e4m3(codes.x[i / 4] >> 8 * (i % 4)), scale);
    return x;
  }
};

// Numbers that a row's bytes hold. `Bytes` has load_1, load_2, load_4 and load_8.
template <class Bytes>
struct PackedBytes {
  ATTN_FN lang::u32 u8_at(int i) const { return bytes().load_1(i); }
  ATTN_FN lang::u32 u16_at(int i) const { return bytes().load_2(i); }
  ATTN_FN lang::u32 u32_at(int i) const { return bytes().load_4(i); }
  ATTN_FN Array<lang::u32, 2> words2(int i) const { return bytes().load_8(i); }
  ATTN_FN float f32_at(int i) const { return lang::from_bits(u32_at(i)); }
  ATTN_FN float f16_at(int i) const { return lang::half_to_float((unsigned short)u16_at(i)); }
  ATTN_FN float bf16_at(int i) const { return lang::from_bits(u16_at(i) << 16); }
  ATTN_FN float e4m3_at(int i) const { return lang::float_of_e4m3(u8_at(i)); }
  ATTN_FN ScaledE4m3 scaled_e4m3(int i, float scale) const { return {words2(i), scale}; }
  // 2^(e - 127); NaN for 255
  ATTN_FN float e8m0_at(int i) const {
    lang::u32 e = u8_at(i);
    return lang::from_bits(e == 0 ? 1u << 22 : e == 255 ? 0x7fc00000u : e << 23);
  }

 private:
  ATTN_FN const Bytes& bytes() const { return static_cast<const Bytes&>(*this); }
};

// A row in global memory, at a multiple of ALIGNMENT bytes.
template <int ALIGNMENT>
struct GlobalBytes : PackedBytes<GlobalBytes<ALIGNMENT>> {
  const unsigned char* p;

  ATTN_FN explicit GlobalBytes(const void* p) : p(static_cast<const unsigned char*>(p)) {}
  ATTN_FN lang::u32 load_1(int i) const { return lang::load(p + i); }
  ATTN_FN lang::u32 load_2(int i) const { return lang::load(reinterpret_cast<const unsigned short*>(p + i)); }
  ATTN_FN lang::u32 load_4(int i) const { return lang::load(reinterpret_cast<const lang::u32*>(p + i)); }
  ATTN_FN Array<lang::u32, 2> load_8(int i) const {
    if (ALIGNMENT < 8) return {{load_4(i), load_4(i + 4)}};
    lang::u64 both = lang::load(reinterpret_cast<const lang::u64*>(p + i));
    return {{lang::u32(both), lang::u32(both >> 32)}};
  }
};
