// MMA operands of codes that are whole numbers (LinearCodes).
//
// A code of 4 or 8 bits in the mantissa of an f16 is a subnormal number, code * 2^-24: masks alone make operands of
// packed codes. Signed codes get an offset by flipping their highest bit, and the sums lose it again. A register holds
// two codes that lie 16 bits apart. Of 4-bit codes every other register holds them 16 times as large, which Q (for K)
// and the output (for V) undo.
#pragma once

#include "decode/kv_pipeline.cuh"

constexpr float CODE_UNIT = 0x1p24f;  // what sums of codes are multiplied by

// How words of codes become operands. BITS is 0 where codes are not linear, and nothing of it is used.
template <int BITS, bool SIGNED>
struct LinearCodes {
  static constexpr int OF_WORD = BITS == 0 ? 4 : 32 / BITS;  // codes of a word
  static constexpr int REGISTERS = OF_WORD / 2;              // that a word becomes
  static constexpr int OF_CHUNK = 4 * OF_WORD;               // codes of 16 bytes
  static constexpr int STEPS = OF_WORD / 4;                  // MMAs (K) or tiles (V) of 16 dims, of 16 bytes
  static constexpr float OFFSET = SIGNED ? 1 << (OF_WORD == 8 ? 3 : 7) : 0;

  // The factor of the codes in register i of a word.
  static constexpr float factor(int i) { return BITS == 4 && i % 2 == 1 ? 16.f : 1.f; }

  // Register i: the codes i and i + REGISTERS of a word.
  static unsigned pair(unsigned word, int i) {
    unsigned mask = BITS != 4 ? 0x00ff00ff : i % 2 ? 0x00f000f0 : 0x000f000f;
    unsigned sign = SIGNED ? mask & ~(mask >> 1) & 0x00880088 : 0;
    return (word >> (BITS != 4 ? 8 * i : i / 2 * 8) & mask) ^ sign;
  }
};

using KeyCodes = LinearCodes<K_CODE_BITS, K_CODES_SIGNED>;
using ValueCodes = LinearCodes<V_CODE_BITS, V_CODES_SIGNED>;

constexpr int K_SCALES = HEAD_DIM_QK / K_SCALE_GROUP;  // of a row
constexpr int V_SCALES = HEAD_DIM_VO / V_SCALE_GROUP;
static_assert(!LINEAR_VALUES || V_SCALES <= 8, "offsets of all groups are rows of one MMA");

// 16 rows of codes from `first` on, of the k-th pair of 16-byte chunks: words of rows 0 to 7 and of rows 8 to 15, of
// the first chunk and of the second.
template <bool TRANSPOSED, class Tile>
inline void load_codes(unsigned (&words)[4], Tile tile, int first, int k) {
  int lane = threadIdx.x % 32;
  unsigned from = tile.advance(tile.offset(lane % 16, lane / 16 * 16), first, 32 * k);
  if constexpr (TRANSPOSED)
    ldmatrix_x4_trans(words, from);
  else
    ldmatrix_x4(words, from);
}

// The dim of Q that meets code i of this lane's word of the c-th chunk of a key.
inline int dim_of_key_code(int c, int i) {
  return KeyCodes::OF_CHUNK * c + KeyCodes::OF_WORD * (threadIdx.x % 4) + i;
}
// The dim of O in this lane's accumulators of tile t, in the lower (`high`: upper) eight rows. A lane's word has the
// codes of two keys.
inline int dim_of_value_code(int t, int high) {
  int c = t / ValueCodes::STEPS, i = t % ValueCodes::STEPS + high * ValueCodes::STEPS;
  return ValueCodes::OF_CHUNK * c + ValueCodes::REGISTERS * (threadIdx.x % 32 / 4) + i;
}

// The operand A of step u of a chunk of keys, or of tile u of a chunk of values: `low` and `upper` are words of the
// rows 0 to 7 and 8 to 15.
inline void key_fragment(unsigned (&a)[4], unsigned low, unsigned upper, int u) {
  a[0] = KeyCodes::pair(low, 2 * u);
  a[1] = KeyCodes::pair(upper, 2 * u);
  a[2] = KeyCodes::pair(low, 2 * u + 1);
  a[3] = KeyCodes::pair(upper, 2 * u + 1);
}
inline void value_fragment(unsigned (&a)[4], unsigned low, unsigned upper, int u) {
  a[0] = ValueCodes::pair(low, u);
  a[1] = ValueCodes::pair(low, u + ValueCodes::STEPS);
  a[2] = ValueCodes::pair(upper, u);
  a[3] = ValueCodes::pair(upper, u + ValueCodes::STEPS);
}
