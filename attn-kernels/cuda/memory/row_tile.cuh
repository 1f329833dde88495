// Rows of a head in shared memory, as copies write them and ldmatrix reads them.
#pragma once

// From row to row, in bytes: whole lines of 128, or a power of two of rows in one.
constexpr int row_pitch(int bytes) {
  if (bytes > 128) return (bytes + 127) / 128 * 128;
  int pitch = 16;
  while (pitch < bytes) pitch *= 2;
  return pitch;
}

// Rows lie end to end where they fill lines of 128 bytes, so that a copy fills whole ones: where rows begin within a line instead, each
// takes part of one more, and the SM takes in a tenth less. In a line, chunks of 16 bytes are permuted by the row, so that those of eight
// rows which ldmatrix reads at once lie in different banks.
template <class E, int ROWS, int DIM>
struct RowTile {
  static constexpr int ROW_BYTES = DIM * sizeof(E);
  static constexpr int PITCH = row_pitch(ROW_BYTES);
  static constexpr int BYTES = ROWS * PITCH;

  unsigned base;  // a multiple of 128

  // Where a byte is, from `base` on.
  static unsigned offset(int row, int byte) {
    unsigned linear = row * PITCH + byte;
    return linear ^ permuted(linear);
  }
  // So many rows and bytes behind what is at `from`; none of the bits that are set in its row and chunk may be set in these.
  unsigned behind(unsigned from, int rows, int bytes) const {
    unsigned far = rows * PITCH + bytes, chunk = (far & 0x70) ^ permuted(far);
    return base + (far & ~0x7fu) + (from ^ chunk);
  }
  unsigned at(int row, int byte) const { return base + offset(row, byte); }

 private:
  static constexpr int LINE = PITCH > 128 ? PITCH : 128;
  static unsigned permuted(unsigned offset) { return offset / LINE % 8 * 16; }
};
