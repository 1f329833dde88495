
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
  EXPORT void NAME(const PARAMS* p, const Variant* variant, int ctas_x, int ctas_y, unsigned seed) {      \
    struct Arguments {                                                                                        \
      const PARAMS* p;                                                                                        \
      const Variant* variant;                                                                                 \
    } arguments = {p, variant};                                                                               \
    auto thread = [](void* argument) {                                                                        \
      const Arguments& of = *static_cast<Arguments*>(argument);                                               \
      KERNEL(*of.p, *of.variant);                                                                             \
    };                                                                                                        \
    gridDim.x = static_cast<unsigned>(ctas_x), gridDim.y = static_cast<unsigned>(ctas_y);                     \
    for (int cta = 0; cta < ctas_x * ctas_y; ++cta) {                                                         \
      poison_shared_memory();                                                                                 \
      blockIdx.x = static_cast<unsigned>(cta % ctas_x), blockIdx.y = static_cast<unsigned>(cta / ctas_x);     \
      std::make_unique<Fibers>(COUNT, seed + static_cast<unsigned>(cta), thread, &arguments);                 \
      check_shared_memory(#KERNEL, SMEM);                                                                     \
    }                                                                                                         \
  }
