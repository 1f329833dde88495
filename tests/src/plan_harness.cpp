// What the kernel that plans needs of CUDA, on a host: its threads are fibers of one thread. Each runs until it has to wait for its warp or its CTA;
// in which order, is another each time, and some warps are late for a while, so that what is read before it was written, or after, does not go unseen.
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <ucontext.h>

using std::sqrt;
// as in every launch that is not mixed
constexpr bool MIXED = false;
constexpr bool SHARED_ROWS = false;
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
void atomicAdd(T* at, T value) {
  *at += value;
}

// So many threads wait for each other, and see what each has brought.
struct Meeting {
  int members;
  unsigned long long brought[2][1024];
  int arrivals = 0;
};

class Fibers {
  static constexpr int STACK = 64 << 10, MOST = 1024;
  ucontext_t scheduler_, fibers_[MOST];
  std::unique_ptr<char[]> stacks_ = std::unique_ptr<char[]>(new char[MOST * STACK]);
  bool done_[MOST] = {};
  Meeting *waits_in_[MOST] = {}, warps_[MOST / 32], cta_;
  int waits_for_[MOST] = {}, threads_;
  unsigned seed_;
  void (*body_)(void*);
  void* of_;

  static void start(unsigned low, unsigned high) {
    auto* self = reinterpret_cast<Fibers*>(static_cast<unsigned long long>(high) << 32 | low);
    self->body_(self->of_);
    self->done_[threadIdx.x] = true;
    self->wait();
  }
  unsigned random() { return (seed_ = seed_ * 1664525 + 1013904223) >> 8; }
  void wait() { swapcontext(&fibers_[threadIdx.x], &scheduler_); }
  bool ready(int i) const { return !done_[i] && (!waits_in_[i] || waits_in_[i]->arrivals >= waits_for_[i]); }

  const unsigned long long* meet(Meeting& meeting, int place, unsigned long long value) {
    int i = threadIdx.x, round = meeting.arrivals / meeting.members;
    unsigned long long* brought = meeting.brought[round % 2];
    brought[place] = value;
    ++meeting.arrivals;
    waits_in_[i] = &meeting;
    waits_for_[i] = (round + 1) * meeting.members;
    wait();
    waits_in_[i] = nullptr;
    return brought;
  }

 public:
  static Fibers* running;

  Fibers(int threads, unsigned seed, void (*body)(void*), void* of) : threads_(threads), seed_(seed), body_(body), of_(of) {
    running = this;
    cta_.members = threads;
    for (Meeting& warp : warps_) warp.members = 32;
    auto self = reinterpret_cast<unsigned long long>(this);
    for (int i = 0; i < threads; ++i) {
      getcontext(&fibers_[i]);
      fibers_[i].uc_stack.ss_sp = stacks_.get() + i * STACK;
      fibers_[i].uc_stack.ss_size = STACK;
      makecontext(&fibers_[i], reinterpret_cast<void (*)()>(start), 2, static_cast<unsigned>(self), static_cast<unsigned>(self >> 32));
    }
    unsigned late = 0;  // warps
    for (int left = threads, round = 0; left > 0; ++round) {
      if (round % 16 == 0) late = random() ^ random() << 16;
      int order[MOST];
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
        if (late >> i / 32 & 1) continue;
        threadIdx.x = i;
        swapcontext(&scheduler_, &fibers_[i]);
        left -= done_[i];
      }
      if (stuck) {
        std::fprintf(stderr, "%d of %d threads wait for threads that have gone\n", left, threads);
        std::abort();
      }
    }
  }

  const unsigned long long* meet_warp(unsigned long long value) { return meet(warps_[threadIdx.x / 32], threadIdx.x % 32, value); }
  const unsigned long long* meet_cta(unsigned long long value) { return meet(cta_, threadIdx.x, value); }
  int threads() const { return threads_; }
};
Fibers* Fibers::running = nullptr;

inline void __syncthreads() { Fibers::running->meet_cta(0); }
inline bool __syncthreads_or(bool mine) {
  const unsigned long long* all = Fibers::running->meet_cta(mine);
  bool any = false;
  for (int i = 0; i < Fibers::running->threads(); ++i) any |= all[i] != 0;
  return any;
}
inline unsigned long long __shfl_sync(unsigned, unsigned long long value, int lane) {
  return Fibers::running->meet_warp(value)[lane % 32];
}
inline unsigned long long __shfl_up_sync(unsigned, unsigned long long value, int step) {
  int lane = threadIdx.x % 32;
  return Fibers::running->meet_warp(value)[lane < step ? lane : lane - step];
}
inline int __reduce_max_sync(unsigned, int value) {
  const unsigned long long* all = Fibers::running->meet_warp(static_cast<unsigned>(value));
  for (int i = 0; i < 32; ++i) value = max(value, static_cast<int>(all[i]));
  return value;
}
