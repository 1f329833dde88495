// The wrappers of arch/cluster.cuh, for clusters of one CTA.
static_assert(CLUSTER_CTAS == 1, "clusters of several CTAs are not emulated");
inline unsigned cluster_rank() { return 0; }
inline void cluster_sync() { __syncthreads(); }
template <class T>
T* of_cta(T* shared, unsigned) {
  return shared;
}
