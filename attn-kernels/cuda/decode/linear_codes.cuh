// MMA operands of codes that stand for numbers (LinearCodes). A register holds two codes that lie 16 bits apart.
//
// A whole number of 4 or 8 bits in the mantissa of an f16 is a subnormal number, code * 2^-24: masks alone make
// operands of packed codes. Signed codes get an offset by flipping their highest bit, and the sums lose it again. Of
// 4-bit codes every other register holds them 16 times as large, which Q (for K) and the output (for V) undo. Bits of
// e2m1 in the fields of an f16 are the number times 2^-14. Levels are looked up by bytes.
#pragma once

#include "arch/element.cuh"
#include "arch/f16x2.cuh"
#include "decode/kv_pipeline.cuh"

// Sixteen numbers as f16: the upper and the lower bytes of each.
struct CodeLevels {
  unsigned high[4], low[4];

  template <class Format>
  explicit CodeLevels(const Format& format) {
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      unsigned first = pack2<f16>(format.level(4 * i), format.level(4 * i + 1));
      unsigned second = pack2<f16>(format.level(4 * i + 2), format.level(4 * i + 3));
      low[i] = __byte_perm(first, second, 0x6420);
      high[i] = __byte_perm(first, second, 0x7531);
    }
  }

  // The numbers of the codes 0, 1 (first) and 2, 3 (second) in the lower half of a word.
  void look_up(unsigned word, unsigned& first, unsigned& second) const {
    unsigned below_8 = word & 0x7777;
    unsigned from_8 = __byte_perm(0xff00, 0, word >> 3 & 0x1111);  // bytes of ones where the code is at least 8
    auto bytes = [&](const unsigned(&of)[4]) {
      unsigned lower = __byte_perm(of[0], of[1], below_8), upper = __byte_perm(of[2], of[3], below_8);
      return (lower & ~from_8) | (upper & from_8);
    };
    unsigned lows = bytes(low), highs = bytes(high);
    first = __byte_perm(lows, highs, 0x5140);
    second = __byte_perm(lows, highs, 0x7362);
  }
};
struct NoLevels {
  template <class Format>
  explicit NoLevels(const Format&) {}
};

// How words of codes become operands. BITS is 0 where codes are not linear, and nothing of it is used.
template <int BITS, CodeValues VALUES>
struct LinearCodes {
  static constexpr bool SIGNED = VALUES == CodeValues::SIGNED;
  static constexpr bool HAS_ZERO = VALUES == CodeValues::UNSIGNED;
  static constexpr bool WHOLE = SIGNED || HAS_ZERO;
  static constexpr int OF_WORD = BITS == 0 ? 4 : 32 / BITS;  // codes of a word
  static constexpr int REGISTERS = OF_WORD / 2;              // that a word becomes
  static constexpr int OF_CHUNK = 4 * OF_WORD;               // codes of 16 bytes
  static constexpr int STEPS = OF_WORD / 4;                  // MMAs (K) or tiles (V) of 16 dims, of 16 bytes
  static constexpr float OFFSET = SIGNED ? 1 << (OF_WORD == 8 ? 3 : 7) : 0;
  // What sums of operands are multiplied by.
  static constexpr float UNIT = WHOLE ? 0x1p24f : VALUES == CodeValues::E2M1 ? 0x1p14f : 1.f;

  using Levels = Choose<VALUES == CodeValues::LEVELS, CodeLevels, NoLevels>;

  // The factor of the codes in register i of a word.
  static constexpr float factor(int i) { return WHOLE && BITS == 4 && i % 2 == 1 ? 16.f : 1.f; }

  // Register i of a word: the codes i and i + REGISTERS.
  static unsigned pair(unsigned word, int i) {
    if constexpr (VALUES == CodeValues::E2M1) {
      unsigned at_top = word << (12 - 4 * i);
      return (at_top & 0x80008000) | (at_top >> 3 & 0x0e000e00);
    } else if constexpr (VALUES == CodeValues::E4M3) {
      return fp8_to_f16<e4m3>(__byte_perm(word, 0, i == 0 ? 0x4420 : 0x4431));
    } else {
      unsigned mask = BITS != 4 ? 0x00ff00ff : i % 2 ? 0x00f000f0 : 0x000f000f;
      unsigned sign = SIGNED ? mask & ~(mask >> 1) & 0x00880088 : 0;
      return (word >> (BITS != 4 ? 8 * i : i / 2 * 8) & mask) ^ sign;
    }
  }
};

using KeyCodes = LinearCodes<K_CODE_BITS, K_CODE_VALUES>;
using ValueCodes = LinearCodes<V_CODE_BITS, V_CODE_VALUES>;

// Scales of groups smaller than 16 bytes of codes multiply operands, others multiply sums of S, and P.
constexpr bool SCALE_KEY_CODES = LINEAR_KEYS && K_SCALE_GROUP < KeyCodes::OF_CHUNK;
constexpr bool SCALE_VALUE_CODES = LINEAR_VALUES && V_SCALE_GROUP < ValueCodes::OF_CHUNK;
constexpr int K_SCALES = LINEAR_KEYS && !SCALE_KEY_CODES ? HEAD_DIM_QK / K_SCALE_GROUP : 1;  // of sums over a row
constexpr int V_SCALES = LINEAR_VALUES && !SCALE_VALUE_CODES ? HEAD_DIM_VO / V_SCALE_GROUP : 1;
static_assert(V_SCALES <= 8, "offsets of all groups are rows of one MMA");

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
inline int dim_of_key_code(int c, int i) { return KeyCodes::OF_CHUNK * c + KeyCodes::OF_WORD * (threadIdx.x % 4) + i; }
// The dim of O in this lane's accumulators of tile t, in the lower (`high`: upper) eight rows. A lane's word has the
// codes of two keys.
inline int dim_of_value_code(int t, int high) {
  int c = t / ValueCodes::STEPS, i = t % ValueCodes::STEPS + high * ValueCodes::STEPS;
  return ValueCodes::OF_CHUNK * c + ValueCodes::REGISTERS * (threadIdx.x % 32 / 4) + i;
}

// A word of codes, whose registers are made where they are used. SCALED: times a pair of scales.
template <class Codes, bool SCALED>
class CodeWord {
  static constexpr bool LOOKED_UP = SAME<typename Codes::Levels, CodeLevels>;
  unsigned word_, scales_;
  unsigned numbers_[LOOKED_UP ? 4 : 1];  // of the codes 0 to 3 of each half: pairs of one half

 public:
  CodeWord(unsigned word, const typename Codes::Levels& levels, unsigned scales) : word_(word), scales_(scales) {
    if constexpr (LOOKED_UP) {
      levels.look_up(word, numbers_[0], numbers_[1]);
      levels.look_up(word >> 16, numbers_[2], numbers_[3]);
    }
  }

  // Register i: the numbers of the codes i and i + REGISTERS.
  unsigned operator[](int i) const {
    unsigned pair;
    if constexpr (LOOKED_UP)
      pair = __byte_perm(numbers_[i / 2], numbers_[2 + i / 2], i % 2 ? 0x7632 : 0x5410);
    else
      pair = Codes::pair(word_, i);
    return SCALED ? mul2_f16(pair, scales_) : pair;
  }
};
using KeyWord = CodeWord<KeyCodes, SCALE_KEY_CODES>;
using ValueWord = CodeWord<ValueCodes, SCALE_VALUE_CODES>;
