// What ops share: how threads find their part, and rows that lie in any strides. Mirrored by attn-kernels/src/launch/op_abi.rs.
#pragma once
#include "abi/kernel_params.cuh"

using u64 = unsigned long long;

constexpr int OP_THREADS = 256;

// n = quotient * divisor + rest, for any n; one below 2^31 takes no division.
struct Split {
  u64 quotient;
  int rest;
};
inline Split split(u64 n, FastDiv d) {
  u64 quotient;
  if (n >> 31)
    quotient = n / d.divisor;
  else
    quotient = d.magic ? __umulhi(static_cast<unsigned>(n), d.magic) >> d.shift : n;
  return {quotient, static_cast<int>(n - quotient * d.divisor)};
}

// A row is a head of a token; `chunks` neighbouring threads take a chunk each, and what is left over of a CTA is idle. Rows longer than a CTA
// are walked.
struct RowShare {
  FastDiv heads;
  FastDiv chunks;  // of a row
  int rows;        // of a CTA at a time
  int pad;
};

struct RowPlace {
  int row;    // of the CTA's
  int chunk;  // the first of this thread
  bool there;
};
inline RowPlace row_place(const RowShare& share) {
  Split at = split(threadIdx.x, share.chunks);
  int row = static_cast<int>(at.quotient);
  return {row, at.rest, row < share.rows};
}

// Counts what was left out.
inline void count_in(unsigned* status, unsigned count = 1u) {
  if (status) atomicAdd(status, count);
}

// Memory in words of so many bytes, so that a width is chosen once for all types.
template <int BYTES>
struct Word;
template <>
struct Word<16> {
  using type = uint4;
};
template <>
struct Word<8> {
  using type = uint2;
};
template <>
struct Word<4> {
  using type = unsigned;
};
template <>
struct Word<2> {
  using type = unsigned short;
};
template <>
struct Word<1> {
  using type = unsigned char;
};
