// Stored rows of a KV format in shared memory.
#pragma once
#include "arch/ptx.cuh"
#include "lang/packed.cuh"
#include "memory/row_tile.cuh"

// A row of codes in a swizzled tile, whose chunks of 16 bytes stay whole.
template <class Tile>
struct SharedCodes : PackedBytes<SharedCodes<Tile>> {
  Tile tile;
  int row;

  SharedCodes(Tile tile, int row) : tile(tile), row(row) {}
  unsigned load_1(int i) const { return load_2(i & ~1) >> 8 * (i & 1) & 0xff; }
  unsigned load_2(int i) const { return load_shared_2(tile.at(row, i)); }
  unsigned load_4(int i) const { return load_shared_4(tile.at(row, i)); }
  Array<unsigned, 2> load_8(int i) const {
    uint2 words = load_shared_8(tile.at(row, i));
    return {{words.x, words.y}};
  }
  // one instruction, where the host computes with whole numbers; the values are the same
  float f16_at(int i) const { return unpack2<f16>(load_2(i)).x; }
};

// A row of side data, at a multiple of 4 bytes.
struct SharedSide : PackedBytes<SharedSide> {
  unsigned base;

  explicit SharedSide(unsigned base) : base(base) {}
  unsigned load_1(int i) const { return load_2(i & ~1) >> 8 * (i & 1) & 0xff; }
  unsigned load_2(int i) const { return load_shared_2(base + i); }
  unsigned load_4(int i) const { return load_shared_4(base + i); }
  Array<unsigned, 2> load_8(int i) const { return {{load_4(i), load_4(i + 4)}}; }
  float f16_at(int i) const { return unpack2<f16>(load_2(i)).x; }
};

// A row of side data in registers, read at constant offsets. Rows lie at multiples of their length.
template <int BYTES>
struct RegisterSide : PackedBytes<RegisterSide<BYTES>> {
  unsigned words[BYTES < 4 ? 1 : BYTES / 4];

  explicit RegisterSide(SharedSide side) {
    if constexpr (BYTES % 8 == 0) {
#pragma unroll
      for (int i = 0; i < BYTES / 8; ++i) {
        uint2 two = load_shared_8(side.base + 8 * i);
        words[2 * i] = two.x, words[2 * i + 1] = two.y;
      }
    } else {
#pragma unroll
      for (int i = 0; i < BYTES / 4; ++i) words[i] = load_shared_4(side.base + 4 * i);
    }
  }
  unsigned load_1(int i) const { return words[i / 4] >> 8 * (i % 4) & 0xff; }
  unsigned load_2(int i) const { return words[i / 4] >> 8 * (i % 4) & 0xffff; }
  unsigned load_4(int i) const { return words[i / 4]; }
  Array<unsigned, 2> load_8(int i) const { return {{load_4(i), load_4(i + 4)}}; }
  float f16_at(int i) const {
    float2 both = unpack2<f16>(words[i / 4]);
    return i % 4 == 0 ? both.x : both.y;
  }
};
// Longer rows stay in shared memory.
template <int BYTES>
using SideOf = Choose<(BYTES <= 32), RegisterSide<BYTES>, SharedSide>;
