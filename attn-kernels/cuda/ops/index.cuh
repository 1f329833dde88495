// Shared by all op kernels: fast division with remainder, the assignment of threads to chunks of rows, and words of
// memory.
#pragma once
#include "abi/kernel_params.cuh"
#include "lang/choose.cuh"
#include "ops/row_tiling.cuh"

using u64 = unsigned long long;

constexpr int OP_THREADS = 256;

// n = quotient * divisor + remainder, for any n. If n is below 2^31, there is no division instruction.
struct DivMod {
  u64 quotient;
  int remainder;
};
inline DivMod divmod(u64 n, FastDiv d) {
  u64 quotient;
  if (n >> 31)
    quotient = n / d.divisor;
  else
    quotient = d.magic ? __umulhi(static_cast<unsigned>(n), d.magic) >> d.shift : n;
  return {quotient, static_cast<int>(n - quotient * d.divisor)};
}

struct RowChunk {
  int row;    // within the CTA's rows
  int chunk;  // the first chunk of this thread
  bool exists;
};
inline RowChunk row_chunk(const RowTiling& share) {
  DivMod at = divmod(threadIdx.x, share.chunks);
  int row = static_cast<int>(at.quotient);
  return {row, at.remainder, row < share.rows};
}

// Adds to the counter of skipped tokens or pages.
inline void count_skipped(unsigned* status, unsigned count = 1u) {
  if (status) atomicAdd(status, count);
}

// The unsigned type of BYTES bytes.
template <int BYTES>
using ShortWord = Choose<BYTES == 4, unsigned, Choose<BYTES == 2, unsigned short, unsigned char>>;
template <int BYTES>
using Word = Choose<BYTES == 16, uint4, Choose<BYTES == 8, uint2, ShortWord<BYTES>>>;
