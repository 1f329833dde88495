// Runs the sampling kernel on a grid: one CTA after the other, with poisoned shared memory. The kernel
// depends on whether a row is in it.
extern "C" void sample(const SampleParams* p, int rows, unsigned bytes, bool holds, unsigned seed) {
  auto resident = [](void* argument) { attn_sample_many(*static_cast<const SampleParams*>(argument)); };
  auto large = [](void* argument) { attn_sample_large(*static_cast<const SampleParams*>(argument)); };
  void (*thread)(void*) = holds ? +resident : +large;
  int threads = holds ? SAMPLE_MANY : SAMPLE_LARGE;
  for (int row = 0; row < rows; ++row) {
    std::memset(shared_memory, 0xff, sizeof shared_memory);
    blockIdx.x = row;
    std::make_unique<Fibers>(threads, seed + row, thread, const_cast<SampleParams*>(p));
    for (unsigned at = bytes; at < sizeof shared_memory; ++at)
      if (shared_memory[at] != 0xff) {
        std::fprintf(stderr, "sampling writes byte %u of %u of its shared memory\n", at, bytes);
        std::abort();
      }
  }
}
