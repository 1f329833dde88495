// Emulates on the host what kernels use of CUDA: keywords, vector types, intrinsics and shared memory. The wrappers of
// PTX instructions are in `arch/`.
#define __global__ inline  // as all functions, so that their static variables may share a section
#define __device__
#define __forceinline__ inline
#define __noinline__
#define __grid_constant__
#define __launch_bounds__(...)
#define __cluster_dims__(...)
#define __align__(n) __attribute__((aligned(n)))
// Static shared memory of a kernel, all of which is poisoned before each CTA.
#define __shared__ static __attribute__((section("attn_shared")))

struct int2 {
  int x, y;
};
struct alignas(8) uint2 {
  unsigned x, y;
};
struct alignas(16) uint4 {
  unsigned x, y, z, w;
};
struct alignas(16) float4 {
  float x, y, z, w;
};
struct {
  unsigned x, y;
} blockIdx, gridDim;

inline float2 make_float2(float x, float y) { return {x, y}; }
inline int2 make_int2(int x, int y) { return {x, y}; }
inline uint4 make_uint4(unsigned x, unsigned y, unsigned z, unsigned w) { return {x, y, z, w}; }
inline unsigned __float_as_uint(float x) { return of_word<unsigned>(to_word(x)); }
inline int __float_as_int(float x) { return of_word<int>(to_word(x)); }
inline float __uint_as_float(unsigned x) { return of_word<float>(x); }
inline float __int_as_float(int x) { return of_word<float>(static_cast<unsigned>(x)); }
inline int __popc(unsigned x) { return __builtin_popcount(x); }
inline float __fdiv_rn(float x, float y) { return x / y; }
inline int __ffs(unsigned x) { return __builtin_ffs(static_cast<int>(x)); }
// Byte i of the result is that byte of the two words which the i-th hexadecimal digit of `which` names.
inline unsigned __byte_perm(unsigned low, unsigned high, unsigned which) {
  unsigned long long bytes = static_cast<unsigned long long>(high) << 32 | low;
  unsigned result = 0;
  for (int i = 0; i < 4; ++i) result |= static_cast<unsigned>(bytes >> 8 * (which >> 4 * i & 7) & 0xff) << 8 * i;
  return result;
}

// Dynamic shared memory of the CTA.
alignas(1024) unsigned char shared_memory[256 << 10];
// Static shared memory; the linker names the ends of the section.
inline unsigned char* any_static_shared() {
  __shared__ unsigned char any[16];
  return any;
}
extern "C" unsigned char __start_attn_shared[], __stop_attn_shared[];

// A shared address counts from the beginning of dynamic memory; those of static memory lie before or behind it.
inline size_t __cvta_generic_to_shared(const void* p) {
  return static_cast<size_t>(static_cast<const unsigned char*>(p) - shared_memory);
}
// The memory of a shared address, which must be a multiple of `bytes`.
inline unsigned char* at_shared(unsigned shared, unsigned bytes, const char* instruction) {
  // static variables are not in the array, which a compiler that checks copies (_FORTIFY_SOURCE) would otherwise assume
  uintptr_t offset = static_cast<uintptr_t>(static_cast<intptr_t>(static_cast<int>(shared)));
  unsigned char* at = reinterpret_cast<unsigned char*>(reinterpret_cast<uintptr_t>(shared_memory) + offset);
  bool dynamic = shared <= sizeof shared_memory - bytes;
  if (!dynamic && !(at >= __start_attn_shared && at + bytes <= __stop_attn_shared))
    fail("an address that is not in shared memory:", instruction);
  if (reinterpret_cast<uintptr_t>(at) % bytes != 0) fail("an unaligned shared address:", instruction);
  return at;
}

// All bits set: NaN in every type, and a negative integer.
inline void poison_shared_memory() {
  any_static_shared()[0] = 0xff;  // the section is not empty
  std::memset(shared_memory, 0xff, sizeof shared_memory);
  std::memset(__start_attn_shared, 0xff, static_cast<size_t>(__stop_attn_shared - __start_attn_shared));
}
