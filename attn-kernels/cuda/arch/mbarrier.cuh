// mbarriers of the producer/consumer pipeline of the warp-specialised sm_90 kernel, with the register reallocation
// (setmaxnreg) and the producer warp roles that go with it.
#pragma once
#include "arch/ptx.cuh"

inline void mbarrier_init(unsigned barrier, int arrivals) {
  asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;" ::"r"(barrier), "r"(arrivals) : "memory");
}
// Makes the initialised mbarriers visible to the async proxy: after all mbarrier_init of a CTA, before its
// __syncthreads.
inline void fence_barrier_init() { asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory"); }

// Waits until the phase of this parity has completed. On a fresh barrier parity 1 returns at once, as if a phase before
// the first one had completed.
inline void mbarrier_wait(unsigned barrier, unsigned parity) {
  asm volatile(
      "{\n"
      ".reg .pred done;\n"
      "again:\n"
      "mbarrier.try_wait.parity.shared::cta.b64 done, [%0], %1;\n"
      "@!done bra again;\n"
      "}" ::"r"(barrier),
      "r"(parity)
      : "memory");
}
inline void mbarrier_arrive(unsigned barrier) {
  asm volatile("mbarrier.arrive.shared::cta.b64 _, [%0];" ::"r"(barrier) : "memory");
}
// Arrives and adds `bytes` to the transaction count: the phase completes when TMA has written them, too.
inline void mbarrier_arrive_expect_tx(unsigned barrier, unsigned bytes) {
  asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(barrier), "r"(bytes) : "memory");
}
// Arrives once all cp.async copies that this thread has issued have landed; the thread itself does not wait.
inline void cp_async_mbarrier_arrive(unsigned barrier) {
  asm volatile("cp.async.mbarrier.arrive.noinc.shared::cta.b64 [%0];" ::"r"(barrier) : "memory");
}

// Orders earlier writes to shared memory through the generic proxy before later WGMMA and TMA accesses (async proxy).
inline void fence_view_async_shared() { asm volatile("fence.proxy.async.shared::cta;" ::: "memory"); }

// Roles of the producer warps. The first thread of each warp does one thing alone: commits K tiles, fetches work tiles,
// commits V tiles, or loads Q. So none of these waits behind another one's mbarrier.
enum class ProducerWarp { LOAD_K, SCHEDULE, LOAD_V, LOAD_Q };
inline bool is_leader_of(ProducerWarp warp) {
  return threadIdx.x == FIRST_PRODUCER_THREAD + 32 * static_cast<int>(warp);
}

// setmaxnreg of a warpgroup: producers give registers back (dealloc), consumers take them (alloc). All four warps of
// the warpgroup execute it.
template <int COUNT>
inline void warpgroup_reg_dealloc() {
  asm volatile("setmaxnreg.dec.sync.aligned.u32 %0;" ::"n"(COUNT));
}
template <int COUNT>
inline void warpgroup_reg_alloc() {
  asm volatile("setmaxnreg.inc.sync.aligned.u32 %0;" ::"n"(COUNT));
}
