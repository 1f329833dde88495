
// Fails if a kernel wrote beyond its dynamic shared memory, which was poisoned.
inline void check_shared_memory(const char* kernel, unsigned bytes) {
  for (unsigned at = bytes; at < sizeof shared_memory; ++at)
    if (shared_memory[at] != 0xff) {
      std::fprintf(stderr, "%s writes byte %u of %u of its shared memory\n", kernel, at, bytes);
      std::abort();
    }
}

// Defines a function that runs a kernel on a grid: one CTA after the other, with poisoned shared memory.
#define LAUNCH(NAME, KERNEL, PARAMS, COUNT, SMEM)                                                             \
  extern "C" void NAME(const PARAMS* p, const Variant* variant, int ctas_x, int ctas_y, unsigned seed) {      \
    struct Arguments {                                                                                        \
      const PARAMS* p;                                                                                        \
      const Variant* variant;                                                                                 \
    } arguments = {p, variant};                                                                               \
    auto thread = [](void* argument) {                                                                        \
      const Arguments& of = *static_cast<Arguments*>(argument);                                               \
      KERNEL(*of.p, *of.variant);                                                                             \
    };                                                                                                        \
    for (int cta = 0; cta < ctas_x * ctas_y; ++cta) {                                                         \
      std::memset(shared_memory, 0xff, sizeof shared_memory);                                                 \
      blockIdx.x = cta % ctas_x, blockIdx.y = cta / ctas_x;                                                   \
      std::make_unique<Fibers>(COUNT, seed + cta, thread, &arguments);                                        \
      check_shared_memory(#KERNEL, SMEM);                                                                     \
    }                                                                                                         \
  }
