// Thread-block clusters (sm_90 and later): barriers and the shared memory of the other CTAs. With CLUSTER_CTAS of 1 a
// cluster is a CTA, on every GPU.
#pragma once

// Of a kernel: the CTAs of its clusters.
#if CLUSTER_SIZE > 1
#define IN_CLUSTERS __cluster_dims__(CLUSTER_SIZE, 1, 1)
#else
#define IN_CLUSTERS
#endif

inline unsigned cluster_rank() {
  unsigned rank = 0;
  if constexpr (CLUSTER_CTAS > 1) asm volatile("mov.u32 %0, %%cluster_ctarank;" : "=r"(rank));
  return rank;
}

// All threads of the cluster wait for each other, and see what the others wrote before.
inline void cluster_sync() {
  if constexpr (CLUSTER_CTAS == 1) {
    __syncthreads();
  } else {
    asm volatile("barrier.cluster.arrive.release.aligned;\nbarrier.cluster.wait.acquire.aligned;" ::: "memory");
  }
}

// The address of the same variable in the shared memory of another CTA of the cluster.
template <class T>
inline T* of_cta(T* shared, unsigned rank) {
  if constexpr (CLUSTER_CTAS == 1) {
    return shared;
  } else {
    unsigned long long address;
    asm volatile("mapa.u64 %0, %1, %2;" : "=l"(address) : "l"(shared), "r"(rank));
    return reinterpret_cast<T*>(address);
  }
}
