// Kernel entries attn_packbits and attn_segment_packbits: pack bools of one byte each into bits.
// attn-core/src/ops/bits.rs is the CPU reference.
#pragma once
#include "arch/reduce.cuh"
#include "ops/index.cuh"
#include "ops/bits_params.cuh"

// Eight bools as bits, the first in the lowest.
inline unsigned eight_bits(u64 bools) {
  // the top bit of each byte says whether the byte is not 0; no carry crosses bytes
  u64 low = (bools & 0x7f7f7f7f7f7f7f7full) + 0x7f7f7f7f7f7f7f7full;
  u64 set = (low | bools) >> 7 & 0x0101010101010101ull;
  return static_cast<unsigned>((set * 0x0102040810204080ull) >> 56);
}

inline unsigned byte_of(u64 bools, int big_endian) {
  unsigned byte = eight_bits(bools);
  return big_endian ? __brev(byte) >> 24 : byte;
}

// Loads eight bools from any address. Bools from `end` on are not read and count as false.
inline u64 load_bools(const unsigned char* from, const unsigned char* end) {
  if (reinterpret_cast<u64>(from) % 8 == 0 && from + 8 <= end) return *reinterpret_cast<const u64*>(from);
  u64 bools = 0;
#pragma unroll
  for (int i = 0; i < 8; ++i)
    if (from + i < end) bools |= static_cast<u64>(from[i]) << 8 * i;
  return bools;
}

// One thread per two bytes of `out`.
extern "C" __global__ void __launch_bounds__(OP_THREADS) attn_packbits(const __grid_constant__ BitsParams p) {
  long long byte = (static_cast<long long>(blockIdx.x) * OP_THREADS + threadIdx.x) * 2, bytes = (p.count + 7) / 8;
  if (byte >= bytes) return;
  const unsigned char *from = p.bools + 8 * byte, *end = p.bools + p.count;
  if (byte + 2 <= bytes && from + 16 <= end &&
      (reinterpret_cast<u64>(from) % 16 | reinterpret_cast<u64>(p.out) % 2) == 0) {
    uint4 x = *reinterpret_cast<const uint4*>(from);
    unsigned first = byte_of(static_cast<u64>(x.y) << 32 | x.x, p.big_endian);
    unsigned second = byte_of(static_cast<u64>(x.w) << 32 | x.z, p.big_endian);
    *reinterpret_cast<unsigned short*>(p.out + byte) = static_cast<unsigned short>(first | second << 8);
    return;
  }
  p.out[byte] = static_cast<unsigned char>(byte_of(load_bools(from, end), p.big_endian));
  if (byte + 1 < bytes) p.out[byte + 1] = static_cast<unsigned char>(byte_of(load_bools(from + 8, end), p.big_endian));
}

// Grid (CTAs per segment, segments). Each CTA sums the bytes of the segments before its own. If `indptr` is invalid,
// what is outside of the bools or the capacity is skipped.
extern "C" __global__ void __launch_bounds__(OP_THREADS) attn_segment_packbits(const __grid_constant__ BitsParams p) {
  __shared__ long long sums[OP_THREADS / 32];
  if (p.segments == 0) {
    if (threadIdx.x == 0) p.out_indptr[0] = 0;
    return;
  }
  int segment = blockIdx.y, lane = threadIdx.x % 32;
  long long before = 0;
  for (int i = threadIdx.x; i < segment; i += OP_THREADS) before += (max(p.indptr[i + 1] - p.indptr[i], 0) + 7) / 8;
  before = sum_of_neighbours<32>(before);
  if (lane == 0) sums[threadIdx.x / 32] = before;
  __syncthreads();
  before = 0;
#pragma unroll
  for (int warp = 0; warp < OP_THREADS / 32; ++warp) before += sums[warp];
  long long first = p.indptr[segment], last = p.indptr[segment + 1];
  long long bytes = last > first ? (last - first + 7) / 8 : 0;
  if (blockIdx.x == 0 && threadIdx.x == 0) {
    if (segment == 0) p.out_indptr[0] = 0;
    p.out_indptr[segment + 1] = static_cast<int>(before + bytes);
  }
  if (first < 0 || last > p.count) return;
  const unsigned char* end = p.bools + last;
  for (long long byte = static_cast<long long>(blockIdx.x) * OP_THREADS + threadIdx.x; byte < bytes;
       byte += gridDim.x * OP_THREADS)
    if (before + byte < p.capacity)
      p.out[before + byte] =
          static_cast<unsigned char>(byte_of(load_bools(p.bools + first + 8 * byte, end), p.big_endian));
}
