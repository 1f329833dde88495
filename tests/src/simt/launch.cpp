
// How far apart CTAs are that run one after the other: next to each other, or with an odd seed about half a grid. On a
// device they end in any order.
inline int cta_stride(int ctas, unsigned seed) {
  int stride = seed % 2 == 1 ? ctas / 2 + 1 : 1;
  while (std::gcd(stride, ctas) != 1) ++stride;
  return stride;
}

// A CTA of a cluster, with its shared memory while another one runs.
struct ClusterCta {
  std::unique_ptr<Fibers> fibers;
  std::vector<unsigned char> dynamic, statics;

  void save() {
    dynamic.assign(shared_memory, std::end(shared_memory));
    statics.assign(__start_attn_shared, __stop_attn_shared);
  }
  void restore() const {
    std::copy(dynamic.begin(), dynamic.end(), shared_memory);
    std::copy(statics.begin(), statics.end(), __start_attn_shared);
  }
};

// Runs the threads of a kernel on a grid: one cluster after the other, with poisoned shared memory. The CTAs of a
// cluster alternate after random numbers of rounds. Fails if the kernel writes beyond its `bytes` of dynamic shared
// memory.
inline void run_grid(const char* kernel, int threads, unsigned bytes, int ctas_x, int ctas_y, unsigned seed,
                     void (*thread)(void*), void* arguments, int of_cluster = 1) {
  gridDim.x = static_cast<unsigned>(ctas_x), gridDim.y = static_cast<unsigned>(ctas_y);
  if (ctas_x % of_cluster != 0) fail("a grid that is not whole clusters");
  int clusters = ctas_x * ctas_y / of_cluster, stride = cta_stride(clusters, seed);
  auto run_cta = [&](int cta, Fibers& fibers, auto run) {
    blockIdx.x = static_cast<unsigned>(cta % ctas_x), blockIdx.y = static_cast<unsigned>(cta / ctas_x);
    run();
    for (unsigned at = bytes; fibers.done() && at < sizeof shared_memory; ++at)
      if (shared_memory[at] != 0xff) {
        std::fprintf(stderr, "%s writes byte %u of %u of its shared memory\n", kernel, at, bytes);
        std::abort();
      }
  };
  for (int i = 0; i < clusters; ++i) {
    int first = static_cast<int>(static_cast<long long>(i) * stride % clusters) * of_cluster;
    poison_shared_memory();
    if (of_cluster == 1) {
      auto fibers = std::make_unique<Fibers>(threads, seed + static_cast<unsigned>(first), thread, arguments);
      run_cta(first, *fibers, [&] { fibers->run(); });
      continue;
    }
    Cluster cluster;
    std::vector<ClusterCta> ctas(static_cast<size_t>(of_cluster));
    for (unsigned rank = 0; rank < ctas.size(); ++rank) {
      unsigned of_cta = seed + static_cast<unsigned>(first) + rank;
      ctas[rank].fibers = std::make_unique<Fibers>(threads, of_cta, thread, arguments, rank, &cluster);
      ctas[rank].save();
      cluster.ctas.push_back(ctas[rank].fibers.get());
    }
    for (size_t rank = 0, waiting = 0, ended = 0; ended < ctas.size(); rank = (rank + 1) % ctas.size()) {
      ClusterCta& cta = ctas[rank];
      if (cta.fibers->done()) continue;
      cta.restore();
      run_cta(first + static_cast<int>(rank), *cta.fibers, [&] {
        unsigned rounds = 1 + cta.fibers->random() % 64, ran = 0;
        while (ran < rounds && !cta.fibers->done() && cta.fibers->run_round()) ++ran;
        waiting = ran == 0 ? waiting + 1 : 0;
      });
      cta.save();
      ended += cta.fibers->done();
      if (waiting > 0 && waiting >= ctas.size() - ended) cta.fibers->fail_stuck();
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

// Defines a function that runs a main kernel with sm_90 prefill on a grid, in clusters of CTAS.
#define LAUNCH_SM90(NAME, KERNEL, PARAMS, COUNT, SMEM, CTAS)                                          \
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
    run_grid(#KERNEL, COUNT, SMEM, x, y, seed, thread, &arguments, CTAS);                             \
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
