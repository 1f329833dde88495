
// How far apart CTAs are that run one after the other: next to each other, or with an odd seed about half a grid. On a
// device they end in any order.
inline int cta_stride(int ctas, unsigned seed) {
  int stride = seed % 2 == 1 ? ctas / 2 + 1 : 1;
  while (std::gcd(stride, ctas) != 1) ++stride;
  return stride;
}

// Runs the threads of a kernel on a grid: one CTA after the other, with poisoned shared memory. Fails if the kernel
// writes beyond its `bytes` of dynamic shared memory.
inline void run_grid(const char* kernel, int threads, unsigned bytes, int ctas_x, int ctas_y, unsigned seed,
                     void (*thread)(void*), void* arguments) {
  gridDim.x = static_cast<unsigned>(ctas_x), gridDim.y = static_cast<unsigned>(ctas_y);
  int ctas = ctas_x * ctas_y, stride = cta_stride(ctas, seed);
  for (int i = 0; i < ctas; ++i) {
    int cta = static_cast<int>(static_cast<long long>(i) * stride % ctas);
    poison_shared_memory();
    blockIdx.x = static_cast<unsigned>(cta % ctas_x), blockIdx.y = static_cast<unsigned>(cta / ctas_x);
    std::make_unique<Fibers>(threads, seed + static_cast<unsigned>(cta), thread, arguments);
    for (unsigned at = bytes; at < sizeof shared_memory; ++at)
      if (shared_memory[at] != 0xff) {
        std::fprintf(stderr, "%s writes byte %u of %u of its shared memory\n", kernel, at, bytes);
        std::abort();
      }
  }
}

// Defines a function that runs a kernel of a variant on a grid.
#define LAUNCH(NAME, KERNEL, PARAMS, COUNT, SMEM)                                                     \
  EXPORT void NAME(const PARAMS* p, const Variant* variant, int ctas_x, int ctas_y, unsigned seed) {  \
    struct Arguments {                                                                                \
      const PARAMS* p;                                                                                \
      const Variant* variant;                                                                         \
    } arguments = {p, variant};                                                                       \
    auto thread = [](void* argument) {                                                                \
      const Arguments& of = *static_cast<Arguments*>(argument);                                       \
      KERNEL(*of.p, *of.variant);                                                                     \
    };                                                                                                \
    run_grid(#KERNEL, COUNT, SMEM, ctas_x, ctas_y, seed, thread, &arguments);                         \
  }

// Defines a function that runs a main kernel with sm_90 prefill on a grid.
#define LAUNCH_SM90(NAME, KERNEL, PARAMS, COUNT, SMEM)                                                \
  EXPORT void NAME(const PARAMS* p, const Variant* variant, const Sm90Params* w, int x, int y,        \
                   unsigned seed) {                                                                   \
    struct Arguments {                                                                                \
      const PARAMS* p;                                                                                \
      const Variant* variant;                                                                         \
      const Sm90Params* w;                                                                            \
    } arguments = {p, variant, w};                                                                    \
    auto thread = [](void* argument) {                                                                \
      const Arguments& of = *static_cast<Arguments*>(argument);                                       \
      KERNEL(*of.p, *of.variant, *of.w);                                                              \
    };                                                                                                \
    run_grid(#KERNEL, COUNT, SMEM, x, y, seed, thread, &arguments);                                   \
  }

// Defines a function that runs a kernel of an op, of `bytes` bytes of dynamic shared memory, on a grid.
#define LAUNCH_OP(KERNEL, PARAMS)                                                                      \
  EXPORT void launch_##KERNEL(PARAMS* p, const void*, int x, int y, unsigned bytes, unsigned seed) {   \
    auto thread = [](void* argument) { KERNEL(*static_cast<const PARAMS*>(argument)); };               \
    run_grid(#KERNEL, OP_THREADS, bytes, x, y, seed, thread, p);                                       \
  }

// The same of the op that chooses scores.
#define LAUNCH_SELECT(KERNEL, PARAMS)                                                                  \
  EXPORT void launch_##KERNEL(PARAMS* p, const void*, int x, int y, unsigned bytes, unsigned seed) {   \
    auto thread = [](void* argument) { KERNEL(*static_cast<const PARAMS*>(argument)); };               \
    run_grid(#KERNEL, SELECT_THREADS, bytes, x, y, seed, thread, p);                                   \
  }

// The same of an op of a variant.
#define LAUNCH_TRANSFORM(KERNEL, PARAMS)                                                                       \
  EXPORT void launch_##KERNEL(PARAMS* p, const Variant* variant, int x, int y, unsigned bytes, unsigned seed) { \
    static const Variant* of;                                                                                  \
    of = variant;                                                                                              \
    auto thread = [](void* argument) { KERNEL(*static_cast<const PARAMS*>(argument), *of); };                  \
    run_grid(#KERNEL, OP_THREADS, bytes, x, y, seed, thread, p);                                               \
  }
