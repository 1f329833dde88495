// WGMMA: an instruction happens when a warpgroup issues it, or as late as a wait for its group allows.
inline void warpgroup_arrive() { Fibers::running->sync_warp(0, "wgmma.fence"); }
template <int N>
void warpgroup_fence_operand(float (&)[N][4]) {}
template <int N>
void warpgroup_fence_operand(unsigned (&)[N][4]) {}
inline void scheduling_fence(float, unsigned) {}

// The operands of a thread. `a`: in registers, or null.
struct WgmmaThread {
  float* c;
  const unsigned* a;
};
// c (64 x N) += a (64 x K) * b (K x N), where K elements have 32 bytes. Descriptors are of tiles with a 128-byte
// swizzle.
struct Wgmma {
  WgmmaThread threads[128];
  unsigned long long a, b;
  bool accumulate;
  int group;
  void (*execute)(const Wgmma&);
};
// What the warpgroups have issued and not executed, in order, and the groups that each warp has committed.
struct Wgmmas {
  std::vector<Wgmma> pending[8];
  int committed[32] = {};
  SyncPoint points[8] = {};
};
inline Wgmmas& wgmmas() { return of_running_cta<Wgmmas>(); }
inline void warpgroup_commit_batch() {
  Fibers::running->sync_warp(0, "wgmma.commit_group", [](const unsigned long long*) {
    ++wgmmas().committed[threadIdx.x / 32];
  });
}
template <int pending>
void warpgroup_wait() {
  Fibers::running->sync_warp(0, "wgmma.wait_group", [](const unsigned long long*) {
    std::vector<Wgmma>& issued = wgmmas().pending[threadIdx.x / 128];
    size_t count = 0;
    while (count < issued.size() && issued[count].group < wgmmas().committed[threadIdx.x / 32] - pending) {
      issued[count].execute(issued[count]);
      ++count;
    }
    issued.erase(issued.begin(), issued.begin() + static_cast<std::ptrdiff_t>(count));
  });
}

// Element of a tile in shared memory: `linear` bytes from the address of the descriptor before the swizzle.
template <class E>
float tile_element(unsigned long long descriptor, unsigned linear) {
  if (descriptor >> 62 != 1) fail("a descriptor without the 128-byte swizzle:", "wgmma");
  unsigned address = static_cast<unsigned>(descriptor & 0x3fff) * 16 + linear;
  unsigned bits = 0;
  std::memcpy(&bits, at_shared(address ^ (address >> 7 & 7) << 4, sizeof(E), "wgmma"), sizeof(E));
  return float_of<E>(bits);
}
// A tile whose rows are contiguous along the summed dimension (K-major), and one whose columns are (MN-major).
template <class E>
float k_major(unsigned long long tile, int row, int k) {
  unsigned eight_rows = static_cast<unsigned>(tile >> 32 & 0x3fff) * 16;
  return tile_element<E>(tile, row / 8 * eight_rows + row % 8 * 128 + static_cast<unsigned>(sizeof(E)) * k);
}
template <class E>
float mn_major(unsigned long long tile, int k, int column) {
  unsigned panel = static_cast<unsigned>(tile >> 16 & 0x3fff) * 16;
  unsigned eight_rows = static_cast<unsigned>(tile >> 32 & 0x3fff) * 16;
  return tile_element<E>(tile, column / 64 * panel + k / 8 * eight_rows + k % 8 * 128 + column % 64 * 2);
}
template <class E, int N, bool B_IS_K_MAJOR>
void execute_wgmma(const Wgmma& of) {
  constexpr int BITS = 8 * sizeof(E), OF_REGISTER = 32 / BITS, K = 256 / BITS;
  alignas(16) float b[K][N], c[N];
  for (int k = 0; k < K; ++k)
    for (int n = 0; n < N; ++n) b[k][n] = B_IS_K_MAJOR ? k_major<E>(of.b, n, k) : mn_major<E>(of.b, k, n);
  for (int row = 0; row < 64; ++row) {
    const WgmmaThread* quad = of.threads + row / 16 * 32 + row % 8 * 4;
    int upper = row % 16 / 8;
    for (int n = 0; n < N; ++n) c[n] = of.accumulate ? quad[n % 8 / 2].c[n / 8 * 4 + 2 * upper + n % 2] : 0.f;
    for (int k = 0; k < K; ++k) {
      const unsigned* registers = quad[k % (K / 2) / OF_REGISTER].a;
      auto in_register = [&] {
        return registers[upper + k / (K / 2) * 2] >> BITS * (k % OF_REGISTER) & ((1u << BITS) - 1);
      };
      float a = registers ? float_of<E>(in_register()) : k_major<E>(of.a, row, k);
      FourFloats four = {a, a, a, a};
      for (int n = 0; n < N; n += 4)
        *reinterpret_cast<FourFloats*>(c + n) += four * *reinterpret_cast<const FourFloats*>(b[k] + n);
    }
    for (int n = 0; n < N; ++n) quad[n % 8 / 2].c[n / 8 * 4 + 2 * upper + n % 2] = c[n];
  }
}
template <class E, int N, bool B_IS_K_MAJOR>
void issue_wgmma(float* c, const unsigned* a_registers, unsigned long long a, unsigned long long b, bool accumulate,
                 const char* instruction) {
  WgmmaThread mine = {c, a_registers};
  unsigned warpgroup = threadIdx.x / 128;
  SyncPoint& point = wgmmas().points[warpgroup];
  point.threads = 128;
  auto issue = [&](const unsigned long long* threads) {
    Wgmma of = {{}, a, b, accumulate, wgmmas().committed[threadIdx.x / 32], execute_wgmma<E, N, B_IS_K_MAJOR>};
    for (int i = 0; i < 128; ++i) of.threads[i] = *reinterpret_cast<const WgmmaThread*>(threads[i]);
    std::vector<Wgmma>& pending = wgmmas().pending[warpgroup];
    if (pending.empty() && Fibers::running->random() & 1)
      of.execute(of);
    else
      pending.push_back(of);
  };
  Fibers::running->sync_at(point, static_cast<int>(threadIdx.x % 128), reinterpret_cast<uintptr_t>(&mine), instruction,
                           issue);
}
template <class E>
inline void wgmma_qk(float (&c)[TILE_KEYS / 8][4], unsigned long long a, unsigned long long b, bool accumulate) {
  issue_wgmma<E, TILE_KEYS, true>(&c[0][0], nullptr, a, b, accumulate, "wgmma of Q K^T");
}
template <class E>
inline void wgmma_qk(float (&c)[TILE_KEYS / 8][4], const unsigned (&a)[4], unsigned long long b, bool accumulate) {
  issue_wgmma<E, TILE_KEYS, true>(&c[0][0], a, 0, b, accumulate, "wgmma of Q K^T");
}
// The columns of P V, those of sums included, as the splicer declares them. Operands of 8 bits are K-major.
template <int N>
struct Blocks {
  static constexpr int COUNT = N;
};
template <int N>
Blocks<N> blocks(void (*)(float (&)[N][4], const unsigned (&)[4], unsigned long long));
constexpr int VALUE_BLOCKS = decltype(blocks(&wgmma_pv<f16>))::COUNT;
template <class E>
inline void wgmma_pv(float (&c)[VALUE_BLOCKS][4], const unsigned (&a)[4], unsigned long long b) {
  issue_wgmma<E, 8 * VALUE_BLOCKS, sizeof(E) == 1>(&c[0][0], a, 0, b, true, "wgmma of P V");
}
template <class E>
inline void wgmma_pv(float (&c)[VALUE_BLOCKS][4], unsigned long long a, unsigned long long b, bool accumulate) {
  issue_wgmma<E, 8 * VALUE_BLOCKS, false>(&c[0][0], nullptr, a, b, accumulate, "wgmma of P V");
}
