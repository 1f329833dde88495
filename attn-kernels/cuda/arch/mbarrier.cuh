// Barriers in shared memory (mbarrier) between threads that copy and threads that multiply, and what else warpgroups of different trades need.
#pragma once
#include "arch/ptx.cuh"

inline void init_barrier(unsigned barrier, int arrivals) {
  asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;" ::"r"(barrier), "r"(arrivals) : "memory");
}
// After all of a CTA's are made, before the CTA meets.
inline void publish_barriers() { asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory"); }

// Until the phase of this parity has ended: of a barrier that nobody arrived at yet, the phase before the first (1) has.
inline void wait_barrier(unsigned barrier, unsigned parity) {
  asm volatile(
      "{\n"
      ".reg .pred done;\n"
      "again:\n"
      "mbarrier.try_wait.parity.shared::cta.b64 done, [%0], %1;\n"
      "@!done bra again;\n"
      "}" ::"r"(barrier), "r"(parity) : "memory");
}
inline void arrive_at(unsigned barrier) { asm volatile("mbarrier.arrive.shared::cta.b64 _, [%0];" ::"r"(barrier) : "memory"); }
// The phase lasts until so many bytes have been copied in boxes, too.
inline void arrive_expecting(unsigned barrier, unsigned bytes) {
  asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(barrier), "r"(bytes) : "memory");
}
// Arrives when all background copies that this thread has begun are there; the thread goes on.
inline void arrive_when_copied(unsigned barrier) {
  asm volatile("cp.async.mbarrier.arrive.noinc.shared::cta.b64 [%0];" ::"r"(barrier) : "memory");
}

// What threads wrote to shared memory before is seen by tensor cores and bulk copies that follow.
inline void fence_shared_for_tensor_cores() { asm volatile("fence.proxy.async.shared::cta;" ::: "memory"); }

// Warps that copy, by what their first threads do alone: say which tiles are coming, take work, say that values are coming, bring queries. So none
// of these waits for what another one waits for.
enum class CopyWarp { KEYS, WORK, VALUES, QUERIES };
inline bool is_first_of(CopyWarp warp) { return threadIdx.x == FIRST_COPY_THREAD + 32 * static_cast<int>(warp); }

// Registers of a thread from here on, of all four warps of a warpgroup: of those that copy fewer, of those that multiply more.
template <int COUNT>
inline void release_registers() {
  asm volatile("setmaxnreg.dec.sync.aligned.u32 %0;" ::"n"(COUNT));
}
template <int COUNT>
inline void claim_registers() {
  asm volatile("setmaxnreg.inc.sync.aligned.u32 %0;" ::"n"(COUNT));
}
