// Emulates the threads of a CTA on the host: they are fibers of one thread. A fiber runs until it waits at a warp-wide
// or CTA-wide barrier. The order of fibers is random and some warps are delayed for a while, so that missing barriers
// show as wrong results.

using std::sqrt;
struct alignas(16) int4 {
  int x, y, z, w;
};
struct alignas(8) float2 {
  float x, y;
};
struct {
  unsigned x;
} threadIdx;

template <class T>
T min(T a, T b) {
  return b < a ? b : a;
}
template <class T>
T max(T a, T b) {
  return a < b ? b : a;
}
inline int4 make_int4(int x, int y, int z, int w) { return {x, y, z, w}; }
inline unsigned __umulhi(unsigned a, unsigned b) { return static_cast<unsigned long long>(a) * b >> 32; }
inline unsigned long long __umul64hi(unsigned long long a, unsigned long long b) {
  return static_cast<unsigned long long>(static_cast<unsigned __int128>(a) * b >> 64);
}
inline int __clz(unsigned x) { return x ? __builtin_clz(x) : 32; }
inline unsigned __brev(unsigned x) {
  unsigned reversed = 0;
  for (int i = 0; i < 32; ++i) reversed |= (x >> i & 1) << (31 - i);
  return reversed;
}
inline void __threadfence() {}
template <class T>
void atomicMax(T* at, T value) {
  *at = max(*at, value);
}
template <class T>
void atomicMin(T* at, T value) {
  *at = min(*at, value);
}
template <class T>
T atomicAdd(T* at, T value) {
  T before = *at;
  *at += value;
  return before;
}

// A failure that no result can show.
[[noreturn]] inline void fail(const char* why, const char* what = "", const char* other = "") {
  std::fprintf(stderr, "thread %u: %s %s %s\n", threadIdx.x, why, what, other);
  std::abort();
}

// A barrier of `threads` threads that also exchanges one value of each.
struct SyncPoint {
  int threads;
  const char* instruction;  // where the threads of this round wait
  unsigned long long values[2][1024];
  int arrivals = 0;
};

class Fibers;
// The CTAs of a cluster, and the threads that have arrived at its barrier.
struct Cluster {
  std::vector<Fibers*> ctas;
  int arrivals = 0;
};

class Fibers {
#ifdef __SANITIZE_ADDRESS__
  static constexpr int STACK = 512 << 10;
#else
  static constexpr int STACK = 64 << 10;
#endif
  static constexpr int MAX_THREADS = 1024;
  Context scheduler_, fibers_[MAX_THREADS];
  bool done_[MAX_THREADS] = {};
  // a fiber waits until the counter has at least this value
  const int* waits_at_[MAX_THREADS] = {};
  int waits_for_[MAX_THREADS] = {}, threads_, left_, round_ = 0;
  unsigned delayed_ = 0;  // a bit for each warp
  SyncPoint warps_[MAX_THREADS / 32], cta_;
  // What asynchronous units do at a random time, or as late as can be: when every thread waits.
  struct Event {
    std::function<void()> happens;
    bool late;
  };
  std::vector<Event> events_;
  unsigned seed_;
  void (*body_)(void*);
  void* argument_;

  // Stacks of all CTAs of this rank, one after the other.
  char* stack(int thread) const {
    static std::unique_ptr<char[]> stacks[MAX_CLUSTER];
    if (!stacks[rank]) stacks[rank].reset(new char[size_t{MAX_THREADS} * STACK]);
    return stacks[rank].get() + size_t{STACK} * thread;
  }
  static void start() {
    running->body_(running->argument_);
    running->done_[threadIdx.x] = true;
    running->yield();
  }
  void yield() { switch_context(fibers_[threadIdx.x], scheduler_); }
  bool ready(int i) const { return !done_[i] && (!waits_at_[i] || *waits_at_[i] >= waits_for_[i]); }
  void fire(size_t event) {
    Event due = std::move(events_[event]);
    events_.erase(events_.begin() + static_cast<std::ptrdiff_t>(event));
    due.happens();
  }

 public:
  static constexpr unsigned MAX_CLUSTER = 2;
  static Fibers* running;
  static unsigned ctas;  // that have run or run now
  const unsigned rank, number = ++ctas;
  Cluster* const cluster;

  // Prepares the threads of a CTA, which execute `body`.
  Fibers(int threads, unsigned seed, void (*body)(void*), void* argument, unsigned rank = 0, Cluster* cluster = nullptr)
      : threads_(threads), left_(threads), seed_(seed), body_(body), argument_(argument), rank(rank), cluster(cluster) {
    cta_.threads = threads;
    for (SyncPoint& warp : warps_) warp.threads = 32;
    for (int i = 0; i < threads; ++i) fibers_[i].prepare(stack(i), STACK, start);
  }

  bool done() const { return left_ == 0; }
  // Runs the threads to the end.
  void run() {
    while (!done())
      if (!run_round()) fail_stuck();
  }
  [[noreturn]] void fail_stuck() const {
    std::fprintf(stderr, "deadlock: %d of %d threads wait for threads that have exited\n", left_, threads_);
    std::abort();
  }
  // Runs every thread that is ready until it waits. Returns whether anything has happened.
  bool run_round() {
    running = this;
    if (round_++ % 16 == 0) delayed_ = random() ^ random() << 16;
    for (size_t event = events_.size(); event-- > 0;)
      if (!events_[event].late && random() % 4 == 0) fire(event);
    int order[MAX_THREADS];
    for (int i = 0; i < threads_; ++i) {
      int j = random() % (i + 1);
      order[i] = order[j];
      order[j] = i;
    }
    bool stuck = true;
    for (int n = 0; n < threads_; ++n) {
      int i = order[n];
      if (!ready(i)) continue;
      stuck = false;
      if (delayed_ >> i / 32 & 1) continue;
      threadIdx.x = i;
      switch_context(scheduler_, fibers_[i]);
      left_ -= done_[i];
    }
    if (done() && !events_.empty()) fail("the CTA has ended before its TMA or cp.async");
    if (!stuck || done()) return true;
    if (events_.empty()) return false;
    fire(random() % events_.size());
    return true;
  }

  unsigned random() { return (seed_ = seed_ * 1664525 + 1013904223) >> 8; }
  int threads() const { return threads_; }

  // Something that an asynchronous unit does later.
  void later(std::function<void()> happens) {
    if (done()) fail("the CTA has ended before another one writes to it");
    events_.push_back({std::move(happens), (random() & 1) != 0});
  }

  // Waits until the counter has at least this value.
  void wait_for(const int& counter, int value) {
    waits_at_[threadIdx.x] = &counter;
    waits_for_[threadIdx.x] = value;
    yield();
    waits_at_[threadIdx.x] = nullptr;
  }

  // Waits for all threads of `point`, which must wait at the same instruction, and returns the values of all of them.
  // `index`: that of this thread. The last thread that arrives calls `complete` with the values, before any goes on.
  template <class F>
  const unsigned long long* sync_at(SyncPoint& point, int index, unsigned long long value, const char* instruction,
                                    F complete) {
    int round = point.arrivals / point.threads;
    unsigned long long* values = point.values[round % 2];
    if (point.arrivals % point.threads == 0)
      point.instruction = instruction;
    else if (std::strcmp(point.instruction, instruction) != 0)
      fail("others of its warp or CTA are at", point.instruction, instruction);
    values[index] = value;
    if (++point.arrivals % point.threads == 0) complete(values);
    wait_for(point.arrivals, (round + 1) * point.threads);
    return values;
  }
  template <class F>
  const unsigned long long* sync_warp(unsigned long long value, const char* instruction, F complete) {
    return sync_at(warps_[threadIdx.x / 32], threadIdx.x % 32, value, instruction, complete);
  }
  const unsigned long long* sync_warp(unsigned long long value, const char* instruction) {
    return sync_warp(value, instruction, [](const unsigned long long*) {});
  }
  const unsigned long long* sync_cta(unsigned long long value, const char* instruction) {
    return sync_at(cta_, threadIdx.x, value, instruction, [](const unsigned long long*) {});
  }
};
Fibers* Fibers::running = nullptr;
unsigned Fibers::ctas = 0;

// What the CTA that runs has of a type, as it was constructed at first.
template <class T>
T& of_running_cta() {
  static std::unique_ptr<T> states[Fibers::MAX_CLUSTER];
  static unsigned numbers[Fibers::MAX_CLUSTER] = {};
  unsigned rank = Fibers::running->rank;
  if (numbers[rank] != Fibers::running->number) states[rank] = std::make_unique<T>();
  numbers[rank] = Fibers::running->number;
  return *states[rank];
}

inline void __syncthreads() { Fibers::running->sync_cta(0, "__syncthreads"); }
inline bool __syncthreads_or(bool mine) {
  const unsigned long long* all = Fibers::running->sync_cta(mine, "__syncthreads_or");
  bool any = false;
  for (int i = 0; i < Fibers::running->threads(); ++i) any |= all[i] != 0;
  return any;
}
// A value of at most eight bytes as a word, and back.
template <class T>
unsigned long long to_word(T value) {
  unsigned long long word = 0;
  __builtin_memcpy(&word, &value, sizeof value);
  return word;
}
template <class T>
T of_word(unsigned long long word) {
  T value;
  __builtin_memcpy(&value, &word, sizeof value);
  return value;
}

// Exchanges a value among the lanes of a warp, all of which take part in every shuffle and vote.
inline const unsigned long long* sync_lanes(unsigned lanes, unsigned long long value, const char* instruction) {
  if (lanes != 0xffffffffu) fail("not all lanes take part in", instruction);
  return Fibers::running->sync_warp(value, instruction);
}

// Shuffles within groups of `width` lanes.
template <class T>
T __shfl_sync(unsigned lanes, T value, int lane, int width = 32) {
  int base = threadIdx.x % 32 / width * width;
  return of_word<T>(sync_lanes(lanes, to_word(value), "__shfl_sync")[base + lane % width]);
}
template <class T>
T __shfl_xor_sync(unsigned lanes, T value, int mask) {
  return of_word<T>(sync_lanes(lanes, to_word(value), "__shfl_xor_sync")[(threadIdx.x % 32) ^ mask]);
}
template <class T>
T __shfl_up_sync(unsigned lanes, T value, int step) {
  int lane = threadIdx.x % 32;
  return of_word<T>(sync_lanes(lanes, to_word(value), "__shfl_up_sync")[lane < step ? lane : lane - step]);
}
inline void __syncwarp() { Fibers::running->sync_warp(0, "__syncwarp"); }
inline unsigned __ballot_sync(unsigned lanes, bool mine) {
  const unsigned long long* all = sync_lanes(lanes, mine, "__ballot_sync");
  unsigned bits = 0;
  for (int i = 0; i < 32; ++i) bits |= static_cast<unsigned>(all[i] != 0) << i;
  return bits;
}
inline bool __any_sync(unsigned mask, bool mine) { return __ballot_sync(mask, mine) != 0; }
inline bool __all_sync(unsigned mask, bool mine) { return __ballot_sync(mask, mine) == ~0u; }
inline int __reduce_max_sync(unsigned lanes, int value) {
  const unsigned long long* all = sync_lanes(lanes, static_cast<unsigned>(value), "__reduce_max_sync");
  for (int i = 0; i < 32; ++i) value = max(value, static_cast<int>(all[i]));
  return value;
}
inline int __reduce_min_sync(unsigned lanes, int value) {
  const unsigned long long* all = sync_lanes(lanes, static_cast<unsigned>(value), "__reduce_min_sync");
  for (int i = 0; i < 32; ++i) value = min(value, static_cast<int>(all[i]));
  return value;
}
