// Rows of a head in shared memory, as copies write them and ldmatrix reads them.
#pragma once

// Rows lie end to end, so that a copy fills whole lines of 128 bytes: where rows are padded instead, each takes part of one more, and
// the SM takes in a tenth less. In a line, chunks of 16 bytes are permuted by the row, so that those of eight rows which ldmatrix reads
// at once lie in different banks.
template <class E, int ROWS>
struct RowTile {
  static constexpr int ROW_BYTES = HEAD_DIM * sizeof(E);
  static constexpr int BYTES = ROWS * ROW_BYTES;

  unsigned base;  // a multiple of 128

  // Where a byte is, from `base` on.
  static unsigned offset(int row, int byte) {
    unsigned linear = row * ROW_BYTES + byte;
    return linear ^ permuted(linear);
  }
  // So many rows and bytes behind what is at `from`; none of the bits that are set in those of `from` may be set in these.
  unsigned behind(unsigned from, int rows, int bytes) const {
    unsigned far = rows * ROW_BYTES + bytes, chunk = (far & 0x70) ^ permuted(far);
    return base + (far & ~0x7fu) + (from ^ chunk);
  }
  unsigned at(int row, int byte) const { return base + offset(row, byte); }

 private:
  static constexpr int LINE = ROW_BYTES > 128 ? ROW_BYTES : 128;
  static unsigned permuted(unsigned offset) { return offset / LINE % 8 * 16; }
};
