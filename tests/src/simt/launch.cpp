
// Runs the threads of a CTA with poisoned shared memory. Fails if the kernel writes beyond its `bytes` of dynamic
// shared memory.
inline void run_cta(const char* kernel, int threads, unsigned bytes, int x, int y, unsigned seed,
                    void (*thread)(void*), void* arguments) {
  poison_shared_memory();
  blockIdx.x = static_cast<unsigned>(x), blockIdx.y = static_cast<unsigned>(y);
  std::make_unique<Fibers>(threads, seed, thread, arguments);
  for (unsigned at = bytes; at < sizeof shared_memory; ++at)
    if (shared_memory[at] != 0xff) {
      std::fprintf(stderr, "%s writes byte %u of %u of its shared memory\n", kernel, at, bytes);
      std::abort();
    }
}

// Runs the threads of a kernel on a grid, one CTA after the other.
inline void run_grid(const char* kernel, int threads, unsigned bytes, int ctas_x, int ctas_y, unsigned seed,
                     void (*thread)(void*), void* arguments) {
  gridDim.x = static_cast<unsigned>(ctas_x), gridDim.y = static_cast<unsigned>(ctas_y);
  for (int cta = 0; cta < ctas_x * ctas_y; ++cta)
    run_cta(kernel, threads, bytes, cta % ctas_x, cta / ctas_x, seed + static_cast<unsigned>(cta), thread, arguments);
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

// Runs a grid as run_grid does, in clusters along x. The CTAs of a cluster run from the last to the first, which may
// read what the others have left in their shared memory.
inline void run_clusters(const char* kernel, int threads, unsigned bytes, int ctas, int of_cluster, unsigned seed,
                         void (*thread)(void*), void* arguments) {
  cluster = {static_cast<unsigned>(of_cluster), 0, {}};
  cluster.memory.resize(static_cast<size_t>(of_cluster));
  gridDim = {static_cast<unsigned>(ctas), 1};
  for (int first = 0; first < ctas; first += of_cluster)
    for (int rank = of_cluster - 1; rank >= 0; --rank) {
      cluster.rank = static_cast<unsigned>(rank);
      run_cta(kernel, threads, bytes, first + rank, 0, seed + static_cast<unsigned>(first + rank), thread, arguments);
      cluster.memory[cluster.rank].assign(shared_memory, shared_memory + sizeof shared_memory);
    }
  cluster = {};
}

// Defines a function that runs decode with its third parameter, in clusters of `of_cluster` CTAs.
#define LAUNCH_ONE_TILE(NAME, SMEM)                                                                   \
  EXPORT void NAME(const KernelParams* p, const Variant* variant, const OneTileParams* one_tile,      \
                   int ctas, int of_cluster, unsigned seed) {                                         \
    struct Arguments {                                                                                \
      const KernelParams* p;                                                                          \
      const Variant* variant;                                                                         \
      const OneTileParams* one_tile;                                                                  \
    } arguments = {p, variant, one_tile};                                                             \
    auto thread = [](void* argument) {                                                                \
      const Arguments& of = *static_cast<Arguments*>(argument);                                       \
      attn_decode(*of.p, *of.variant, *of.one_tile);                                                  \
    };                                                                                                \
    run_clusters("attn_decode", THREADS, SMEM, ctas, of_cluster, seed, thread, &arguments);           \
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
