// The wrappers of arch/cluster.cuh. Pointers into other CTAs are not emulated.
inline unsigned cluster_rank() { return Fibers::running->rank; }
inline void cluster_sync() {
  Fibers& cta = *Fibers::running;
  if (!cta.cluster) return __syncthreads();
  int& arrivals = cta.cluster->arrivals;
  int threads = static_cast<int>(cta.cluster->ctas.size()) * cta.threads(), round = arrivals++ / threads;
  cta.wait_for(arrivals, (round + 1) * threads);
}
template <class T>
T* of_cta(T* shared, unsigned) {
  static_assert(CLUSTER_CTAS == 1 || sizeof(T) == 0, "pointers into other CTAs are not emulated");
  return shared;
}
