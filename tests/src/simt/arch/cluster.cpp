// The wrappers of arch/cluster.cuh. The CTAs of a cluster run one after the other, from the last to the first: what the
// first reads of the others is there, and no CTA can read from one before it.
inline unsigned cluster_rank() { return cluster.rank; }
inline void cluster_sync() { __syncthreads(); }
template <class T>
T* of_cta(T* shared, unsigned rank) {
  if (rank == cluster.rank) return shared;
  if (rank < cluster.rank || rank >= cluster.ctas) fail("of_cta:", "a CTA that has not run");
  auto offset = reinterpret_cast<const unsigned char*>(shared) - shared_memory;
  if (offset < 0 || offset >= static_cast<ptrdiff_t>(sizeof shared_memory)) fail("of_cta:", "not in dynamic memory");
  return reinterpret_cast<T*>(cluster.memory[rank].data() + offset);
}
