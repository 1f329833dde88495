// Runs the sampling kernel on a grid: one CTA after the other, with poisoned shared memory. The kernel
// depends on whether all tokens of a row are in it.
EXPORT void sample(const SampleParams* p, int rows, unsigned bytes, unsigned seed) {
  auto resident = [](void* argument) { attn_sample_many(*static_cast<const SampleParams*>(argument)); };
  auto large = [](void* argument) { attn_sample_large(*static_cast<const SampleParams*>(argument)); };
  void (*thread)(void*) = p->resident == p->slice ? +resident : +large;
  int threads = p->resident == p->slice ? SAMPLE_MANY : SAMPLE_LARGE;
  for (int row = 0; row < rows; ++row) {
    poison_shared_memory();
    blockIdx.x = row;
    std::make_unique<Fibers>(threads, seed + row, thread, const_cast<SampleParams*>(p));
    for (unsigned at = bytes; at < sizeof shared_memory; ++at)
      if (shared_memory[at] != 0xff) {
        std::fprintf(stderr, "sampling writes byte %u of %u of its shared memory\n", at, bytes);
        std::abort();
      }
  }
}
