// The shared memory tile of decode: rows of a head in a swizzled layout that cp.async writes and ldmatrix reads without
// bank conflicts.
#pragma once

// Bytes from one row to the next: a multiple of 128, or a power of two of rows in 128 bytes.
constexpr int row_pitch(int bytes) {
  if (bytes > 128) return (bytes + 127) / 128 * 128;
  int pitch = 16;
  while (pitch < bytes) pitch *= 2;
  return pitch;
}

// Rows start on 128-byte lines wherever they fill them, so that copies write whole lines. Rows that start within a line
// each touch one line more, which costs a tenth of the load bandwidth of an SM. Within a line the 16-byte chunks are
// swizzled by the row, so that the eight rows that ldmatrix reads at once lie in different banks.
template <class E, int ROWS, int DIM>
struct RowTile {
  static constexpr int ROW_BYTES = DIM * sizeof(E);
  static constexpr int PITCH = row_pitch(ROW_BYTES);
  static constexpr int BYTES = ROWS * PITCH;

  unsigned base;  // a multiple of 128

  // Swizzled offset of a byte from `base`.
  static unsigned offset(int row, int byte) {
    unsigned linear = row * PITCH + byte;
    return linear ^ swizzle(linear);
  }
  // The address `rows` and `bytes` past the swizzled offset `from`. Its row and chunk must have no set bit in common
  // with `rows` and the chunk of `bytes`.
  unsigned advance(unsigned from, int rows, int bytes) const {
    unsigned linear = rows * PITCH + bytes, chunk = (linear & 0x70) ^ swizzle(linear);
    return base + (linear & ~0x7fu) + (from ^ chunk);
  }
  unsigned at(int row, int byte) const { return base + offset(row, byte); }

 private:
  static constexpr int LINE = PITCH > 128 ? PITCH : 128;
  static unsigned swizzle(unsigned offset) { return offset / LINE % 8 * 16; }
};
