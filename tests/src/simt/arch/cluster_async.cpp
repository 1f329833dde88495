// The wrappers of arch/cluster_async.cuh. An address in another CTA is that in its own memory, and above it the rank.
constexpr unsigned OF_RANK = 1u << 28;
inline unsigned shared_of_cta(unsigned shared, unsigned rank) { return shared + (rank + 1) * OF_RANK; }
inline Fibers& cta_of(unsigned address) {
  unsigned rank = (address + OF_RANK / 2) / OF_RANK - 1;
  auto& ctas = Fibers::running->cluster->ctas;
  if (rank >= ctas.size()) fail("an address that is in no CTA of the cluster:", "shared::cluster");
  return *ctas[rank];
}
// The store happens at a random time at which the other CTA runs, whose memory is there then.
inline void store_async_16(unsigned to, uint4 v, unsigned barrier) {
  Fibers& cta = cta_of(to);
  if (&cta_of(barrier) != &cta) fail("an mbarrier of another CTA than that of the memory:", "st.async");
  unsigned base = (cta.rank + 1) * OF_RANK;
  cta.later([=] {
    std::memcpy(at_shared(to - base, sizeof v, "st.async"), &v, sizeof v);
    mbarrier_complete_tx(barrier - base, sizeof v);
  });
}
inline void mbarrier_arrive_remote(unsigned barrier) {
  Fibers &cta = cta_of(barrier), *own = Fibers::running;
  if (cta.done()) fail("the CTA has ended before another one arrives at its mbarrier");
  Fibers::running = &cta;
  mbarrier_arrive(barrier - (cta.rank + 1) * OF_RANK);
  Fibers::running = own;
}
