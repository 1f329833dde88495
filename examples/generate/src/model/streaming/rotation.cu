// Rotates the kept keys of a step by their positions in the cache, from one pool to the same slots of another. A CTA
// has a page of a request: one of the sinks, or one of the window. A thread has 8 neighbouring elements, which are 4
// pairs, of the same places in all heads of a key, so that it computes their sines and cosines once.

// Sine and cosine of an angle of up to some thousand turns, to about 1e-6.
inline void sine_cosine(float angle, float& sine, float& cosine) {
  float turns = rintf(angle * 0.15915494f);
  float rest = fmaf(-turns, 6.28125f, angle);  // two parts of 2 pi, the first of few bits
  __sincosf(fmaf(-turns, 1.9353072e-3f, rest), &sine, &cosine);
}

extern "C" __global__ void rotate(const f16* __restrict__ from, const int* rows, const int* pages,
                                  const float* frequencies, int sinks, int window, int page_size, int heads, int dim,
                                  f16* __restrict__ to) {
  int length = rows[3 * blockIdx.x], added = rows[3 * blockIdx.x + 1], first = rows[3 * blockIdx.x + 2];
  int dropped = max(length - sinks - window, 0), visible = max(length - added - window + 1, 0), lanes = dim / 8;
  int of_sinks = (sinks + page_size - 1) / page_size, skipped = max(visible / page_size - of_sinks, 0);
  int index = blockIdx.y < of_sinks ? blockIdx.y : blockIdx.y + skipped, begin = index * page_size;
  if (begin >= length) return;
  long long page = pages[first + index];
  for (int i = threadIdx.x; i < page_size * lanes; i += blockDim.x) {
    int slot = i / lanes, lane = i % lanes, position = begin + slot;
    if (position >= length || position >= sinks && position < visible) continue;
    float cached = position < sinks ? position : position - dropped, sines[4], cosines[4];
#pragma unroll
    for (int pair = 0; pair < 4; ++pair) {
      sine_cosine(cached * frequencies[4 * lane + pair], sines[pair], cosines[pair]);
    }
    long long row = (page * page_size + slot) * heads * dim + 8 * lane;
#pragma unroll 4
    for (int head = 0; head < heads; ++head) {
      uint4 w = *reinterpret_cast<const uint4*>(from + row + head * dim);
      unsigned words[4] = {w.x, w.y, w.z, w.w};
#pragma unroll
      for (int pair = 0; pair < 4; ++pair) {
        float2 x = unpack2<f16>(words[pair]);
        words[pair] = pack2<f16>(x.x * cosines[pair] - x.y * sines[pair], x.y * cosines[pair] + x.x * sines[pair]);
      }
      *reinterpret_cast<uint4*>(to + row + head * dim) = {words[0], words[1], words[2], words[3]};
    }
  }
}
