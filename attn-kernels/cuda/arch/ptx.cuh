// Wrappers of PTX instructions that C++ does not reach: exp2 and its emulation, cp.async, named barriers, ldmatrix,
// stmatrix and mma.sync.
#pragma once
#include "arch/element.cuh"

// 2^x, relative error 2^-22; 2^-inf = 0.
inline float exp2_approx(float x) {
  float y;
  asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
  return y;
}
// log2(x), relative error 2^-23, or absolute error 2^-22 near 1.
inline float log2_approx(float x) {
  float y;
  asm("lg2.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
  return y;
}

// exp2 emulation on the FMA units instead of the special function unit (FlashAttention-4): 2^x = 2^whole * 2^rest with
// 0 <= rest < 1, and a cubic polynomial for 2^rest. Relative error 1e-4; x is clamped to -126. Adding TO_INTEGER with
// rounding towards -inf leaves `whole` in the lowest mantissa bits.
inline float exp2_emulated(float x) {
  constexpr float TO_INTEGER = 12582912.f;
  x = fmaxf(x, -126.f);
  float whole;
  asm("add.rm.f32 %0, %1, %2;" : "=f"(whole) : "f"(x), "f"(TO_INTEGER));
  float rest = x - (whole - TO_INTEGER);
  float power = fmaf(fmaf(fmaf(0.0771190f, rest, 0.2275644f), rest, 0.6951461f), rest, 1.f);
  return __int_as_float((__float_as_int(whole) << 23) + __float_as_int(power));
}

// Byte address within shared memory, as ldmatrix and cp.async take it.
inline unsigned shared_address(const void* p) { return (unsigned)__cvta_generic_to_shared(p); }

// Keeps the compiler from recomputing a value in order to save its register.
template <class T>
inline void keep_in_register(T*& x) {
  asm volatile("" : "+l"(x));
}
inline void keep_in_register(unsigned& x) { asm volatile("" : "+r"(x)); }

// Shared memory by address.
inline void store_shared_16(unsigned shared, uint4 v) {
  asm volatile("st.shared.v4.b32 [%0], {%1, %2, %3, %4};" ::"r"(shared), "r"(v.x), "r"(v.y), "r"(v.z), "r"(v.w)
               : "memory");
}
inline void store_shared_4(unsigned shared, unsigned v) {
  asm volatile("st.shared.b32 [%0], %1;" ::"r"(shared), "r"(v) : "memory");
}
inline void store_shared_8(unsigned shared, uint2 v) {
  asm volatile("st.shared.v2.b32 [%0], {%1, %2};" ::"r"(shared), "r"(v.x), "r"(v.y) : "memory");
}
inline unsigned load_shared_2(unsigned shared) {
  unsigned v;
  asm volatile("{.reg .b16 h; ld.shared.b16 h, [%1]; cvt.u32.u16 %0, h;}" : "=r"(v) : "r"(shared) : "memory");
  return v;
}
inline unsigned load_shared_4(unsigned shared) {
  unsigned v;
  asm volatile("ld.shared.b32 %0, [%1];" : "=r"(v) : "r"(shared) : "memory");
  return v;
}
inline uint2 load_shared_8(unsigned shared) {
  uint2 v;
  asm volatile("ld.shared.v2.b32 {%0, %1}, [%2];" : "=r"(v.x), "=r"(v.y) : "r"(shared) : "memory");
  return v;
}
inline uint4 load_shared_16(unsigned shared) {
  uint4 v;
  asm volatile("ld.shared.v4.b32 {%0, %1, %2, %3}, [%4];"
               : "=r"(v.x), "=r"(v.y), "=r"(v.z), "=r"(v.w)
               : "r"(shared)
               : "memory");
  return v;
}

// cp.async of 16 bytes from global to shared memory. It bypasses L1 (.cg): no CTA reads a tile twice. Before sm_80,
// which has no such instruction, a load and a store take its place.
inline void cp_async_16(unsigned shared, const void* global) {
#if __CUDA_ARCH__ >= 800
  asm volatile("cp.async.cg.shared.global.L2::128B [%0], [%1], 16;" ::"r"(shared), "l"(global) : "memory");
#else
  store_shared_16(shared, *static_cast<const uint4*>(global));
#endif
}
// As above, for the first `bytes` bytes; the rest is filled with zeros.
inline void cp_async_16(unsigned shared, const void* global, int bytes) {
  asm volatile("cp.async.cg.shared.global.L2::128B [%0], [%1], 16, %2;" ::"r"(shared), "l"(global), "r"(bytes)
               : "memory");
}
// As the first, under an L2 cache policy.
inline void cp_async_16(unsigned shared, const void* global, unsigned long long policy) {
#if __CUDA_ARCH__ >= 800
  asm volatile("cp.async.cg.shared.global.L2::cache_hint.L2::128B [%0], [%1], 16, %2;" ::"r"(shared), "l"(global),
               "l"(policy)
               : "memory");
#else
  cp_async_16(shared, global);
#endif
}
// cp.async of 8 bytes, for rows that are no multiple of 16 bytes.
inline void cp_async_8(unsigned shared, const void* global) {
#if __CUDA_ARCH__ >= 800
  asm volatile("cp.async.ca.shared.global.L2::128B [%0], [%1], 8;" ::"r"(shared), "l"(global) : "memory");
#else
  store_shared_8(shared, *static_cast<const uint2*>(global));
#endif
}
// cp.async of 4 bytes, for side data of rows.
inline void cp_async_4(unsigned shared, const void* global) {
#if __CUDA_ARCH__ >= 800
  asm volatile("cp.async.ca.shared.global.L2::128B [%0], [%1], 4;" ::"r"(shared), "l"(global) : "memory");
#else
  store_shared_4(shared, *static_cast<const unsigned*>(global));
#endif
}
// evict_first: lines read under this policy leave L2 first, so that they do not evict data that others will read or
// have written.
inline unsigned long long evict_first_policy() {
  unsigned long long policy = 0;
#if __CUDA_ARCH__ >= 800
  asm("createpolicy.fractional.L2::evict_first.b64 %0, 1.0;" : "=l"(policy));
#endif
  return policy;
}
// Commits the cp.async copies issued so far as one group.
inline void cp_async_commit() {
#if __CUDA_ARCH__ >= 800
  asm volatile("cp.async.commit_group;" ::: "memory");
#endif
}
// Waits until at most `pending` groups of this thread are in flight.
template <int pending>
inline void cp_async_wait() {
#if __CUDA_ARCH__ >= 800
  asm volatile("cp.async.wait_group %0;" ::"n"(pending) : "memory");
#endif
}

// Named barrier `id` (1 to 15) for `threads` threads of the CTA, whole warps.
inline void named_barrier_sync(int id, int threads) {
  asm volatile("bar.sync %0, %1;" ::"r"(id), "r"(threads) : "memory");
}
// Waits there, too. Returns whether `mine` holds for all of its threads.
inline bool named_barrier_all(int id, int threads, bool mine) {
  int all;
  asm volatile(
      "{\n"
      ".reg .pred p;\n"
      "setp.ne.s32 p, %3, 0;\n"
      "bar.red.and.pred p, %1, %2, p;\n"
      "selp.s32 %0, 1, 0, p;\n"
      "}"
      : "=r"(all)
      : "r"(id), "r"(threads), "r"(static_cast<int>(mine))
      : "memory");
  return all;
}
// Arrives there without waiting for the others.
inline void named_barrier_arrive(int id, int threads) {
  asm volatile("bar.arrive %0, %1;" ::"r"(id), "r"(threads) : "memory");
}

// One 16-byte store. The compiler often splits the store of a structure into four.
inline void store_16(void* to, uint4 v) {
  asm volatile("st.global.v4.b32 [%0], {%1, %2, %3, %4};" ::"l"(to), "r"(v.x), "r"(v.y), "r"(v.z), "r"(v.w) : "memory");
}

// Loads from L2 (.cg): L1 does not see what other SMs wrote.
inline float4 load_l2_16(const void* p) {
  float4 v;
  asm volatile("ld.global.cg.v4.f32 {%0, %1, %2, %3}, [%4];"
               : "=f"(v.x), "=f"(v.y), "=f"(v.z), "=f"(v.w)
               : "l"(p)
               : "memory");
  return v;
}
inline float2 load_l2_8(const void* p) {
  float2 v;
  asm volatile("ld.global.cg.v2.f32 {%0, %1}, [%2];" : "=f"(v.x), "=f"(v.y) : "l"(p) : "memory");
  return v;
}
// Loads of what no thread writes during the launch (.nc), in the order of the program: the compiler would move them.
inline unsigned load_nc_4(const void* p) {
  unsigned v;
  asm volatile("ld.global.nc.b32 %0, [%1];" : "=r"(v) : "l"(p));
  return v;
}
inline float2 load_nc_8(const void* p) {
  float2 v;
  asm volatile("ld.global.nc.v2.f32 {%0, %1}, [%2];" : "=f"(v.x), "=f"(v.y) : "l"(p));
  return v;
}

// Brings the 128 bytes around an address into L2.
inline void prefetch_l2(const void* p) { asm volatile("prefetch.global.L2 [%0];" ::"l"(p)); }

// Increments a split-KV semaphore and returns its previous value. Acquire-release at GPU scope: the CTA that counts
// later sees what this CTA wrote before its last barrier.
inline unsigned semaphore_arrive(unsigned* arrivals) {
  unsigned before;
  asm volatile("atom.acq_rel.gpu.global.add.u32 %0, [%1], 1;" : "=r"(before) : "l"(arrivals) : "memory");
  return before;
}

// stmatrix (sm_90): stores four 8x8 matrices of 16-bit elements; lane l gives the address of row l % 8 of matrix l / 8.
inline void stmatrix_x4(unsigned shared, const unsigned (&x)[4]) {
  asm volatile("stmatrix.sync.aligned.m8n8.x4.shared.b16 [%0], {%1, %2, %3, %4};" ::"r"(shared), "r"(x[0]), "r"(x[1]),
               "r"(x[2]), "r"(x[3])
               : "memory");
}
// ldmatrix: loads four 8x8 matrices of 16-bit elements; lane l gives the address of row l % 8 of matrix l / 8. The asm
// is volatile because the compiler does not know that it reads memory, and must not move it over barriers.
inline void ldmatrix_x4(unsigned (&r)[4], unsigned shared) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
               : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3])
               : "r"(shared));
}
inline void ldmatrix_x4_trans(unsigned (&r)[4], unsigned shared) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0, %1, %2, %3}, [%4];"
               : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3])
               : "r"(shared));
}

// ldmatrix of two 8x8 matrices; lanes 0 to 15 give the addresses.
inline void ldmatrix_x2(unsigned (&r)[2], unsigned shared) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x2.shared.b16 {%0, %1}, [%2];" : "=r"(r[0]), "=r"(r[1]) : "r"(shared));
}
inline void ldmatrix_x2_trans(unsigned (&r)[2], unsigned shared) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x2.trans.shared.b16 {%0, %1}, [%2];" : "=r"(r[0]), "=r"(r[1]) : "r"(shared));
}

// Transposes an 8x8 matrix of 16-bit elements, of which each lane holds two neighbours of a row.
inline unsigned movmatrix_trans(unsigned x) {
  unsigned y;
  asm("movmatrix.sync.aligned.m8n8.trans.b16 %0, %1;" : "=r"(y) : "r"(x));
  return y;
}

// mma.sync: c (16 x 8, f32) += a (16 x 16) * b (16 x 8).
template <class E>
void mma(float (&c)[4], const unsigned (&a)[4], unsigned b0, unsigned b1);
template <>
inline void mma<bf16>(float (&c)[4], const unsigned (&a)[4], unsigned b0, unsigned b1) {
  asm("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0, %1, %2, %3}, "
      "{%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"
      : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
}
template <>
inline void mma<f16>(float (&c)[4], const unsigned (&a)[4], unsigned b0, unsigned b1) {
  asm("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0, %1, %2, %3}, "
      "{%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"
      : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
}
