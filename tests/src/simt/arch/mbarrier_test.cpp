// The wrapper of arch/mbarrier_test.cuh.
inline bool mbarrier_test(unsigned barrier, unsigned parity) {
  return (static_cast<unsigned>(mbarrier_at(barrier).phases) & 1) != parity;
}
