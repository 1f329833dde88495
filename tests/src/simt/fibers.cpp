// Emulates the threads of a CTA on the host: they are fibers of one thread. A fiber runs until it waits at a warp-wide
// or CTA-wide barrier. The order of fibers is random and some warps are delayed for a while, so that missing barriers
// show as wrong results.
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <ucontext.h>

using std::sqrt;
struct int4 {
  int x, y, z, w;
};
struct float2 {
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

// A barrier of `threads` threads that also exchanges one value of each.
struct SyncPoint {
  int threads;
  unsigned long long values[2][1024];
  int arrivals = 0;
};

class Fibers {
  static constexpr int STACK = 64 << 10, MAX_THREADS = 1024;
  ucontext_t scheduler_, fibers_[MAX_THREADS];
  std::unique_ptr<char[]> stacks_ = std::unique_ptr<char[]>(new char[MAX_THREADS * STACK]);
  bool done_[MAX_THREADS] = {};
  SyncPoint *waits_at_[MAX_THREADS] = {}, warps_[MAX_THREADS / 32], cta_;
  int waits_for_[MAX_THREADS] = {}, threads_;
  unsigned seed_;
  void (*body_)(void*);
  void* argument_;

  static void start(unsigned low, unsigned high) {
    auto* self = reinterpret_cast<Fibers*>(static_cast<unsigned long long>(high) << 32 | low);
    self->body_(self->argument_);
    self->done_[threadIdx.x] = true;
    self->wait();
  }
  unsigned random() { return (seed_ = seed_ * 1664525 + 1013904223) >> 8; }
  void wait() { swapcontext(&fibers_[threadIdx.x], &scheduler_); }
  bool ready(int i) const { return !done_[i] && (!waits_at_[i] || waits_at_[i]->arrivals >= waits_for_[i]); }

  // Waits for all threads of `point` and returns the values of all of them. `index`: that of this thread.
  const unsigned long long* sync_at(SyncPoint& point, int index, unsigned long long value) {
    int i = threadIdx.x, round = point.arrivals / point.threads;
    unsigned long long* values = point.values[round % 2];
    values[index] = value;
    ++point.arrivals;
    waits_at_[i] = &point;
    waits_for_[i] = (round + 1) * point.threads;
    wait();
    waits_at_[i] = nullptr;
    return values;
  }

 public:
  static Fibers* running;

  // Runs `body` in every thread of a CTA, to the end.
  Fibers(int threads, unsigned seed, void (*body)(void*), void* argument)
      : threads_(threads), seed_(seed), body_(body), argument_(argument) {
    running = this;
    cta_.threads = threads;
    for (SyncPoint& warp : warps_) warp.threads = 32;
    auto self = reinterpret_cast<unsigned long long>(this);
    for (int i = 0; i < threads; ++i) {
      getcontext(&fibers_[i]);
      fibers_[i].uc_stack.ss_sp = stacks_.get() + i * STACK;
      fibers_[i].uc_stack.ss_size = STACK;
      makecontext(&fibers_[i], reinterpret_cast<void (*)()>(start), 2, static_cast<unsigned>(self),
                  static_cast<unsigned>(self >> 32));
    }
    unsigned delayed = 0;  // a bit for each warp
    for (int left = threads, round = 0; left > 0; ++round) {
      if (round % 16 == 0) delayed = random() ^ random() << 16;
      int order[MAX_THREADS];
      for (int i = 0; i < threads; ++i) {
        int j = random() % (i + 1);
        order[i] = order[j];
        order[j] = i;
      }
      bool stuck = true;
      for (int n = 0; n < threads; ++n) {
        int i = order[n];
        if (!ready(i)) continue;
        stuck = false;
        if (delayed >> i / 32 & 1) continue;
        threadIdx.x = i;
        swapcontext(&scheduler_, &fibers_[i]);
        left -= done_[i];
      }
      if (stuck) {
        std::fprintf(stderr, "deadlock: %d of %d threads wait for threads that have exited\n", left, threads);
        std::abort();
      }
    }
  }

  const unsigned long long* sync_warp(unsigned long long value) {
    return sync_at(warps_[threadIdx.x / 32], threadIdx.x % 32, value);
  }
  const unsigned long long* sync_cta(unsigned long long value) { return sync_at(cta_, threadIdx.x, value); }
  int threads() const { return threads_; }
};
Fibers* Fibers::running = nullptr;

inline void __syncthreads() { Fibers::running->sync_cta(0); }
inline bool __syncthreads_or(bool mine) {
  const unsigned long long* all = Fibers::running->sync_cta(mine);
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

// Shuffles within groups of `width` lanes.
template <class T>
T __shfl_sync(unsigned, T value, int lane, int width = 32) {
  int base = threadIdx.x % 32 / width * width;
  return of_word<T>(Fibers::running->sync_warp(to_word(value))[base + lane % width]);
}
template <class T>
T __shfl_xor_sync(unsigned, T value, int mask) {
  return of_word<T>(Fibers::running->sync_warp(to_word(value))[(threadIdx.x % 32) ^ mask]);
}
template <class T>
T __shfl_up_sync(unsigned, T value, int step) {
  int lane = threadIdx.x % 32;
  return of_word<T>(Fibers::running->sync_warp(to_word(value))[lane < step ? lane : lane - step]);
}
inline void __syncwarp() { Fibers::running->sync_warp(0); }
inline unsigned __ballot_sync(unsigned, bool mine) {
  const unsigned long long* all = Fibers::running->sync_warp(mine);
  unsigned bits = 0;
  for (int i = 0; i < 32; ++i) bits |= static_cast<unsigned>(all[i] != 0) << i;
  return bits;
}
inline bool __any_sync(unsigned mask, bool mine) { return __ballot_sync(mask, mine) != 0; }
inline bool __all_sync(unsigned mask, bool mine) { return __ballot_sync(mask, mine) == ~0u; }
inline int __reduce_max_sync(unsigned, int value) {
  const unsigned long long* all = Fibers::running->sync_warp(static_cast<unsigned>(value));
  for (int i = 0; i < 32; ++i) value = max(value, static_cast<int>(all[i]));
  return value;
}
