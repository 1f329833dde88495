// Runs a kernel that verifies drafts on a grid: one CTA after the other, with poisoned shared memory.
EXPORT void verify(const VERIFY_PARAMS* p, int requests, unsigned bytes, unsigned seed) {
  auto thread = [](void* argument) { VERIFY_KERNEL(*static_cast<const VERIFY_PARAMS*>(argument)); };
  for (int request = 0; request < requests; ++request) {
    poison_shared_memory();
    blockIdx.x = request;
    std::make_unique<Fibers>(VERIFY_THREADS, seed + request, +thread, const_cast<VERIFY_PARAMS*>(p));
    for (unsigned at = bytes; at < sizeof shared_memory; ++at)
      if (shared_memory[at] != 0xff) {
        std::fprintf(stderr, "verification writes byte %u of %u of its shared memory\n", at, bytes);
        std::abort();
      }
  }
}
