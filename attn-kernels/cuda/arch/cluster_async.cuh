// Stores and arrivals in the shared memory of another CTA of the cluster (sm_90). Addresses are of shared::cluster, as
// `shared_of_cta` makes them.
#pragma once
#include "arch/cluster.cuh"
#include "arch/mbarrier.cuh"

// The address of the same byte in the shared memory of another CTA of the cluster. Neighbours are neighbours there.
inline unsigned shared_of_cta(unsigned shared, unsigned rank) {
  unsigned address;
  asm volatile("mapa.shared::cluster.u32 %0, %1, %2;" : "=r"(address) : "r"(shared), "r"(rank));
  return address;
}
// Stores 16 bytes some time later, and counts them on an mbarrier of the CTA that gets them.
inline void store_async_16(unsigned to, uint4 v, unsigned barrier) {
  asm volatile(
      "st.async.weak.shared::cluster.mbarrier::complete_tx::bytes.v4.b32 [%0], {%1, %2, %3, %4}, [%5];" ::"r"(to),
      "r"(v.x), "r"(v.y), "r"(v.z), "r"(v.w), "r"(barrier)
      : "memory");
}
// Arrives at an mbarrier of another CTA, once WGMMAs that were waited for have read shared memory. It orders no writes
// before what that CTA does: `.release.cluster` would, by a fence of the whole GPU.
inline void mbarrier_arrive_remote(unsigned barrier) {
  asm volatile("mbarrier.arrive.shared::cluster.b64 _, [%0];" ::"r"(barrier) : "memory");
}
