// The cost of rotating all keys of a cache in a kernel of its own: each key is read, rotated (half-split pairs, angles
// position * theta^(-2 i / dim), approximate sine and cosine) and written elsewhere, 16 bytes at a time. Add it to
// decode over rotated keys, and compare with decode that rotates in the kernel (`rope`).
//
//     nvcc -O3 -arch=native -o rotate_keys rotate_keys.cu && ./rotate_keys [tokens [heads]]
//
// Prints a line of JSON: the median of 21 launches between events, the second-level cache overwritten before each.
#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <vector>

#include <cuda_bf16.h>
#include <cuda_runtime.h>

constexpr int DIM = 128, HALF = DIM / 2;

static void check(cudaError_t error) {
  if (error == cudaSuccess) return;
  fprintf(stderr, "%s\n", cudaGetErrorString(error));
  exit(1);
}

struct alignas(16) Eight {
  __nv_bfloat16 x[8];
};

__global__ void rotate(const Eight* from, Eight* to, int heads, long long keys, int length) {
  long long n = blockIdx.x * static_cast<long long>(blockDim.x) + threadIdx.x, key = n / 8;
  if (key >= keys) return;
  int lane = n % 8;
  float position = key / heads % length;
  long long first = key * (DIM / 8) + lane, second = first + HALF / 8;
  Eight a = from[first], b = from[second];
#pragma unroll
  for (int i = 0; i < 8; ++i) {
    float angle = position * exp2f((lane * 8 + i) * (-13.287712f / HALF)), sine, cosine;
    __sincosf(angle, &sine, &cosine);
    float x = __bfloat162float(a.x[i]), y = __bfloat162float(b.x[i]);
    a.x[i] = __float2bfloat16(x * cosine - y * sine);
    b.x[i] = __float2bfloat16(y * cosine + x * sine);
  }
  to[first] = a;
  to[second] = b;
}

int main(int count, char** args) {
  long long tokens = count > 1 ? atoll(args[1]) : 64 * 4096;
  int heads = count > 2 ? atoi(args[2]) : 8, length = 4096;
  long long keys = tokens * heads;
  size_t bytes = keys * DIM * 2, flush_bytes = 256 << 20;
  Eight *from, *to;
  void* flush;
  check(cudaMalloc(&from, bytes));
  check(cudaMalloc(&to, bytes));
  check(cudaMalloc(&flush, flush_bytes));
  check(cudaMemset(from, 0x3c, bytes));
  cudaEvent_t begin, end;
  check(cudaEventCreate(&begin));
  check(cudaEventCreate(&end));
  std::vector<float> times;
  for (int i = 0; i < 21; ++i) {
    check(cudaMemsetAsync(flush, i, flush_bytes));
    check(cudaEventRecord(begin));
    rotate<<<static_cast<unsigned>((keys * 8 + 255) / 256), 256>>>(from, to, heads, keys, length);
    check(cudaEventRecord(end));
    check(cudaEventSynchronize(end));
    float ms;
    check(cudaEventElapsedTime(&ms, begin, end));
    times.push_back(ms * 1e3f);
  }
  std::sort(times.begin(), times.end());
  float us = times[times.size() / 2];
  double tb_s = 2e-6 * bytes / us;
  printf("{\"case\": \"rotate keys\", \"tokens\": %lld, \"heads\": %d, \"us\": %.1f, \"tb_s\": %.2f}\n", tokens, heads,
         us, tb_s);
}
