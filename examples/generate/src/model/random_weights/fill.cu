// Random numbers, as `normal.rs` has them to the bit: a centred sum of four uniform numbers of 16 bits.

inline float normal(unsigned long long key, unsigned long long index, float scale) {
  unsigned long long bits = key + index * 0x9e3779b97f4a7c15ull;
  bits = (bits ^ (bits >> 30)) * 0xbf58476d1ce4e5b9ull;
  bits = (bits ^ (bits >> 27)) * 0x94d049bb133111ebull;
  bits ^= bits >> 31;
  int sum = static_cast<int>(bits & 0xffff) + static_cast<int>(bits >> 16 & 0xffff) +
            static_cast<int>(bits >> 32 & 0xffff) + static_cast<int>(bits >> 48);
  return static_cast<float>(sum - 2 * 0xffff) * scale;
}

// A CTA has 64 elements for each thread. The division is that of the host: to nearest.
extern "C" __global__ void fill(unsigned long long key, float deviation, unsigned long long first,
                                unsigned long long count, f16* to) {
  float scale = __fdiv_rn(deviation, 37837.227f);
  unsigned long long begin = blockIdx.x * (blockDim.x * 64ull);
  for (int i = 0; i < 64; ++i) {
    unsigned long long index = begin + i * blockDim.x + threadIdx.x;
    if (index < count) to[first + index] = from_float<f16>(normal(key, index, scale));
  }
}
