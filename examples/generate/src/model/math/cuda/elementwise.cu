// What a step of a Llama does beside products and attention. Rows have a multiple of 8 elements, and one thread has 8
// of them: 16 bytes of f16. What depends on a row alone is computed in the same order in every batch.

struct Eight {
  float x[8];
};

inline Eight load(const f16* from) {
  uint4 w = *reinterpret_cast<const uint4*>(from);
  float2 a = unpack2<f16>(w.x), b = unpack2<f16>(w.y), c = unpack2<f16>(w.z), d = unpack2<f16>(w.w);
  return {a.x, a.y, b.x, b.y, c.x, c.y, d.x, d.y};
}
inline Eight load(const float* from) {
  float4 a = reinterpret_cast<const float4*>(from)[0], b = reinterpret_cast<const float4*>(from)[1];
  return {a.x, a.y, a.z, a.w, b.x, b.y, b.z, b.w};
}
inline void store(f16* to, const float (&x)[8]) {
  *reinterpret_cast<uint4*>(to) = {pack2<f16>(x[0], x[1]), pack2<f16>(x[2], x[3]), pack2<f16>(x[4], x[5]),
                                   pack2<f16>(x[6], x[7])};
}
inline void store(float* to, const float (&x)[8]) {
  reinterpret_cast<float4*>(to)[0] = make_float4(x[0], x[1], x[2], x[3]);
  reinterpret_cast<float4*>(to)[1] = make_float4(x[4], x[5], x[6], x[7]);
}

// The first of the eight elements of this thread, in the row that the grid counts along x.
inline int element() { return 8 * (blockIdx.y * blockDim.x + threadIdx.x); }
inline long long at(long long row, int width) { return row * width + element(); }

// out[row] = from[index of the row]; zeros where there is no such row.
template <class From, class To>
inline void copy_rows(const From* from, const int* indices, int rows, int width, To* out) {
  if (element() >= width) return;
  int index = indices[blockIdx.x];
  bool there = 0 <= index && index < rows;
  store(out + at(blockIdx.x, width), (there ? load(from + at(index, width)) : Eight{}).x);
}

// One CTA has a whole row.
extern "C" __global__ void rms_norm(const float* x, const f16* weight, float eps, int width, f16* out) {
  __shared__ float sums[32];
  bool inside = element() < width;
  Eight v = inside ? load(x + at(blockIdx.x, width)) : Eight{};
  float sum = 0.f;
#pragma unroll
  for (int i = 0; i < 8; ++i) sum += v.x[i] * v.x[i];
#pragma unroll
  for (int step = 16; step > 0; step /= 2) sum += __shfl_xor_sync(0xffffffffu, sum, step);
  if (threadIdx.x % 32 == 0) sums[threadIdx.x / 32] = sum;
  __syncthreads();
  if (!inside) return;
  sum = 0.f;
  for (int warp = 0; warp < blockDim.x / 32; ++warp) sum += sums[warp];
  float scale = rsqrtf(sum / width + eps);
  Eight w = load(weight + element());
#pragma unroll
  for (int i = 0; i < 8; ++i) v.x[i] *= scale * w.x[i];
  store(out + at(blockIdx.x, width), v.x);
}

extern "C" __global__ void embed(const f16* table, const int* tokens, int vocab, int width, float* out) {
  copy_rows(table, tokens, vocab, width, out);
}
extern "C" __global__ void gather(const float* x, const int* indices, int rows, int width, float* out) {
  copy_rows(x, indices, rows, width, out);
}
// Each row of `gate_up` is a row of the gate and a row of the up projection.
extern "C" __global__ void silu_mul(const f16* gate_up, int width, f16* out) {
  if (element() >= width) return;
  const f16* row = gate_up + 2ll * blockIdx.x * width + element();
  Eight gate = load(row), up = load(row + width);
#pragma unroll
  for (int i = 0; i < 8; ++i) gate.x[i] *= up.x[i] / (1.f + __expf(-gate.x[i]));
  store(out + at(blockIdx.x, width), gate.x);
}
