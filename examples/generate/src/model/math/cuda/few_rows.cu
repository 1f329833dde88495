// Products of a few rows with a weight matrix. Weights are read once, by one warp for each output, which needs no
// second kernel to add partial sums. `elementwise.cu` comes before this text.

template <>
inline float from_float<float>(float x) {
  return x;
}

template <int ROWS, class Out>
inline void product(const f16* weight, const f16* x, int outputs, int inputs, int accumulate, Out* out) {
  int output = blockIdx.x * (blockDim.x / 32) + threadIdx.x / 32, lane = threadIdx.x % 32;
  if (output >= outputs) return;
  const f16* row = weight + static_cast<long long>(output) * inputs;
  float sums[ROWS] = {};
#pragma unroll 4
  for (int k = 8 * lane; k < inputs; k += 256) {
    Eight w = load(row + k);
#pragma unroll
    for (int r = 0; r < ROWS; ++r) {
      Eight v = load(x + r * inputs + k);
#pragma unroll
      for (int i = 0; i < 8; ++i) sums[r] += w.x[i] * v.x[i];
    }
  }
#pragma unroll
  for (int r = 0; r < ROWS; ++r) {
#pragma unroll
    for (int step = 16; step > 0; step /= 2) sums[r] += __shfl_xor_sync(0xffffffffu, sums[r], step);
    Out* to = out + static_cast<long long>(r) * outputs + output;
    if (lane == 0) *to = from_float<Out>(accumulate ? sums[r] + to_float(*to) : sums[r]);
  }
}

#define ENTRY(ROWS, NAME, OUT)                                                                         \
  extern "C" __global__ void NAME(const f16* weight, const f16* x, int outputs, int inputs, int accumulate, \
                                  OUT* out) {                                                          \
    product<ROWS>(weight, x, outputs, inputs, accumulate, out);                                        \
  }
ENTRY(1, product_1_f16, f16)
ENTRY(1, product_1_f32, float)
ENTRY(2, product_2_f16, f16)
ENTRY(2, product_2_f32, float)
ENTRY(4, product_4_f16, f16)
ENTRY(4, product_4_f32, float)
