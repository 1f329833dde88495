// Emulates on the host what kernels on CUDA cores use of CUDA: types, intrinsics, conversions, and the wrappers of PTX
// instructions that arch/element.cuh and arch/ptx.cuh define for a GPU. Copies to shared memory are made at once.
#include <algorithm>
#include <cstring>

#define __global__
#define __device__
#define __forceinline__ inline
#define __noinline__
#define __grid_constant__
#define __launch_bounds__(...)
#define __align__(n) __attribute__((aligned(n)))
#define __shared__ static

struct int2 {
  int x, y;
};
struct uint2 {
  unsigned x, y;
};
struct uint4 {
  unsigned x, y, z, w;
};
struct float4 {
  float x, y, z, w;
};
struct {
  unsigned x, y;
} blockIdx;

inline float2 make_float2(float x, float y) { return {x, y}; }
inline int2 make_int2(int x, int y) { return {x, y}; }
inline unsigned __float_as_uint(float x) { return of_word<unsigned>(to_word(x)); }
inline int __float_as_int(float x) { return of_word<int>(to_word(x)); }
inline float __uint_as_float(unsigned x) { return of_word<float>(x); }
inline float __int_as_float(int x) { return of_word<float>(static_cast<unsigned>(x)); }
inline int __popc(unsigned x) { return __builtin_popcount(x); }
inline int __ffs(unsigned x) { return __builtin_ffs(static_cast<int>(x)); }

// Memory of the CTA. Shared addresses count from its beginning.
alignas(128) unsigned char shared_memory[256 << 10];
inline unsigned shared_address(const void* p) {
  return static_cast<unsigned>(static_cast<const unsigned char*>(p) - shared_memory);
}

struct bf16 {
  unsigned short bits;
};
struct f16 {
  unsigned short bits;
};
struct e4m3 {
  unsigned char bits;
};
struct e5m2 {
  unsigned char bits;
};

template <class E>
constexpr bool IS_FP8 = false;
template <>
constexpr bool IS_FP8<e4m3> = true;
template <>
constexpr bool IS_FP8<e5m2> = true;

template <bool FIRST, class A, class B>
struct Choose {
  using type = A;
};
template <class A, class B>
struct Choose<false, A, B> {
  using type = B;
};

inline float to_float(bf16 x) { return __uint_as_float(static_cast<unsigned>(x.bits) << 16); }
inline float to_float(f16 x) { return static_cast<float>(of_word<_Float16>(x.bits)); }
inline float to_float(float x) { return x; }

template <class E>
E from_float(float x);
template <>
inline bf16 from_float<bf16>(float x) {
  unsigned bits = __float_as_uint(x);
  return {static_cast<unsigned short>(x == x ? (bits + 0x7fff + (bits >> 16 & 1)) >> 16 : bits >> 16 | 0x40)};
}
template <>
inline f16 from_float<f16>(float x) {
  return {static_cast<unsigned short>(to_word(static_cast<_Float16>(x)))};
}
template <class E>
unsigned pack2(float first, float second) {
  return from_float<E>(first).bits | static_cast<unsigned>(from_float<E>(second).bits) << 16;
}
inline unsigned pack2_f16_satfinite(float first, float second) {
  auto clamped = [](float x) { return x > 65504.f ? 65504.f : x < -65504.f ? -65504.f : x; };
  return pack2<f16>(clamped(first), clamped(second));
}
template <class E>
float2 unpack2(unsigned x) {
  return {to_float(E{static_cast<unsigned short>(x)}), to_float(E{static_cast<unsigned short>(x >> 16)})};
}
template <class E>
unsigned short f16_of_fp8(unsigned x);
template <>
inline unsigned short f16_of_fp8<e5m2>(unsigned x) {
  return static_cast<unsigned short>(x << 8);
}
template <>
inline unsigned short f16_of_fp8<e4m3>(unsigned x) {
  unsigned magnitude = x & 0x7f, sign = x << 8 & 0x8000;
  if (magnitude == 0x7f) return static_cast<unsigned short>(sign | 0x7e00);
  int exponent = static_cast<int>(magnitude >> 3), mantissa = static_cast<int>(magnitude & 7) + (exponent > 0 ? 8 : 0);
  float value = std::ldexp(static_cast<float>(mantissa), std::max(exponent, 1) - 10);
  return static_cast<unsigned short>(sign | from_float<f16>(value).bits);
}
template <class E>
unsigned fp8_to_f16(unsigned x) {
  return f16_of_fp8<E>(x & 0xff) | static_cast<unsigned>(f16_of_fp8<E>(x >> 8 & 0xff)) << 16;
}

inline float exp2_approx(float x) { return std::exp2(x); }
inline float log2_approx(float x) { return std::log2(x); }
inline float reciprocal_approx(float x) { return 1.f / x; }

template <class T>
T load_shared(unsigned shared) {
  T value;
  std::memcpy(&value, shared_memory + shared, sizeof value);
  return value;
}
template <class T>
void store_shared(unsigned shared, T value) {
  std::memcpy(shared_memory + shared, &value, sizeof value);
}
inline void store_shared_16(unsigned shared, uint4 v) { store_shared(shared, v); }
inline void store_shared_8(unsigned shared, uint2 v) { store_shared(shared, v); }
inline void store_shared_4(unsigned shared, unsigned v) { store_shared(shared, v); }
inline unsigned load_shared_2(unsigned shared) { return load_shared<unsigned short>(shared); }
inline unsigned load_shared_4(unsigned shared) { return load_shared<unsigned>(shared); }
inline uint2 load_shared_8(unsigned shared) { return load_shared<uint2>(shared); }
inline uint4 load_shared_16(unsigned shared) { return load_shared<uint4>(shared); }

inline void cp_async_16(unsigned shared, const void* global) { std::memcpy(shared_memory + shared, global, 16); }
inline void cp_async_16(unsigned shared, const void* global, unsigned long long) { cp_async_16(shared, global); }
inline void cp_async_8(unsigned shared, const void* global) { std::memcpy(shared_memory + shared, global, 8); }
inline unsigned long long evict_first_policy() { return 0; }
inline void cp_async_commit() {}
template <int pending>
void cp_async_wait() {}

inline void store_16(void* to, uint4 v) { std::memcpy(to, &v, sizeof v); }
inline float4 load_l2_16(const void* p) { return *static_cast<const float4*>(p); }
inline float2 load_l2_8(const void* p) { return *static_cast<const float2*>(p); }
inline unsigned semaphore_arrive(unsigned* arrivals) { return (*arrivals)++; }
