// Warpgroup MMA (WGMMA, sm_90): shared-memory descriptors, arrive/commit/wait, operand fences, and the ping-pong
// barriers (FlashAttention-3).
//
// A warpgroup is four warps of 16 rows each. Its accumulators have the register layout of mma.sync; tiles in shared
// memory have the 128-byte swizzle (panels of 64 elements). The splicer emits the instructions `wgmma_qk` and
// `wgmma_pv` for the exact widths of a kernel.
#pragma once
#include "prefill/fragments.cuh"

constexpr int CONSUMER_WARPGROUPS = WARPS / 4;
static_assert(ROW_BLOCKS == 1 && CONSUMER_WARPGROUPS % COLUMN_WARPS == 0, "a warpgroup has 64 rows");

using SmemDescriptor = unsigned long long;

// Descriptor of a tile with 128-byte swizzle at `address`, a multiple of 1024 except where it begins at a whole row of
// Q. `panels`: stride in bytes between panels of 64 columns, used where V is read transposed; eight rows are 1024
// bytes.
inline SmemDescriptor make_smem_descriptor(unsigned address, unsigned panels) {
  return (SmemDescriptor)((address & 0x3ffff) >> 4) | (SmemDescriptor)(panels >> 4) << 16 |
         (SmemDescriptor)(1024 >> 4) << 32 | 1ull << 62;
}
// The descriptor of the tile `bytes` bytes further on.
inline SmemDescriptor advance_descriptor(SmemDescriptor tile, unsigned bytes) { return tile + (bytes >> 4); }

// wgmma.fence: between register writes to accumulators or A operands and the WGMMAs that use them.
inline void warpgroup_arrive() { asm volatile("wgmma.fence.sync.aligned;" ::: "memory"); }
// Commits the WGMMAs issued so far as one group; they run asynchronously.
inline void warpgroup_commit_batch() { asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory"); }
// Waits until at most `pending` WGMMA groups are in flight.
template <int pending>
inline void warpgroup_wait() {
  asm volatile("wgmma.wait_group.sync.aligned %0;" ::"n"(pending) : "memory");
}

// The compiler does not know that WGMMA writes these registers asynchronously. The fence keeps it from moving
// arithmetic on them over a wait, and from copying them to other registers.
template <int N>
inline void warpgroup_fence_operand(float (&x)[N][4]) {
#pragma unroll
  for (int n = 0; n < N; ++n)
#pragma unroll
    for (int e = 0; e < 4; ++e) asm volatile("" : "+f"(x[n][e])::"memory");
}
template <int N>
inline void warpgroup_fence_operand(unsigned (&x)[N][4]) {
#pragma unroll
  for (int n = 0; n < N; ++n)
#pragma unroll
    for (int e = 0; e < 4; ++e) asm volatile("" : "+r"(x[n][e])::"memory");
}

// ptxas hoists a wgmma wait as far as it can, and with it everything that was meant to overlap with the WGMMAs. This
// scheduling fence keeps the wait behind `x`: a store depends on x that never executes, since no arithmetic produces
// this NaN.
inline void scheduling_fence(float x, unsigned shared) {
  asm volatile(
      "{\n"
      ".reg .pred never;\n"
      "setp.eq.u32 never, %0, 0x7fdeadbe;\n"
      "@never st.shared.u32 [%1], %0;\n"
      "}" ::"r"(__float_as_uint(x)),
      "r"(shared)
      : "memory");
}

// Ping-pong scheduling (FlashAttention-3): a warpgroup waits on its own named barrier before its GEMMs, and arrives at
// that of the next warpgroup after them.
inline void warp_scheduler_barrier_sync(int warpgroup) { named_barrier_sync(WARP_SCHEDULER_BARRIER + warpgroup, 256); }
inline void warp_scheduler_barrier_arrive(int warpgroup) {
  named_barrier_arrive(WARP_SCHEDULER_BARRIER + warpgroup, 256);
}
