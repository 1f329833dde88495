// The wrappers of arch/mbarrier.cuh. The state of an mbarrier is kept beside its word in shared memory.
struct Mbarrier {
  int expected = 0, pending = 0, phases = 0;  // arrivals of a phase, those still missing, and completed phases
  long long bytes = 0;                        // that TMA is still to write

  void complete_if_due() {
    if (pending < 0) fail("more arrivals than a phase expects:", "mbarrier");
    if (pending == 0 && bytes == 0) pending = expected, ++phases;
  }
};
struct MbarrierEntry {
  unsigned address;
  std::unique_ptr<Mbarrier> state;
};
inline Mbarrier& mbarrier_at(unsigned barrier, bool initialise = false) {
  auto& entries = of_running_cta<std::vector<MbarrierEntry>>();
  for (MbarrierEntry& entry : entries)
    if (entry.address == barrier) return *entry.state;
  if (!initialise) fail("it was not initialised:", "mbarrier");
  at_shared(barrier, 8, "mbarrier");
  entries.push_back({barrier, std::make_unique<Mbarrier>()});
  return *entries.back().state;
}
inline void mbarrier_init(unsigned barrier, int arrivals) {
  Mbarrier& state = mbarrier_at(barrier, true);
  state = {};
  state.expected = state.pending = arrivals;
}
inline void fence_barrier_init() {}
inline void mbarrier_wait(unsigned barrier, unsigned parity) {
  Mbarrier& state = mbarrier_at(barrier);
  if ((static_cast<unsigned>(state.phases) & 1) == parity) Fibers::running->wait_for(state.phases, state.phases + 1);
}
inline void mbarrier_arrive(unsigned barrier) {
  Mbarrier& state = mbarrier_at(barrier);
  --state.pending;
  state.complete_if_due();
}
inline void mbarrier_arrive_expect_tx(unsigned barrier, unsigned bytes) {
  mbarrier_at(barrier).bytes += bytes;
  mbarrier_arrive(barrier);
}
inline void mbarrier_complete_tx(unsigned barrier, unsigned bytes) {
  Mbarrier& state = mbarrier_at(barrier);
  state.bytes -= bytes;
  state.complete_if_due();
}
inline void cp_async_mbarrier_arrive(unsigned barrier) {
  ThreadCopies* copies = &thread_copies();
  Fibers::running->later([=] {
    copies->finish(copies->committed + 1);
    mbarrier_arrive(barrier);
  });
}
inline void fence_view_async_shared() { fence_proxies(); }
// The emulator does not count registers.
template <int COUNT>
inline void warpgroup_reg_dealloc() {
  Fibers::running->sync_warp(COUNT, "setmaxnreg.dec");
}
template <int COUNT>
inline void warpgroup_reg_alloc() {
  Fibers::running->sync_warp(COUNT, "setmaxnreg.inc");
}
