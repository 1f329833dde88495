// The kernel that plans, behind a C interface: its threads are fibers of one thread of the host. Between two barriers they run one after the
// other in an order that is another each time, so that what is read before it was written does not go unseen.
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
inline int4 make_int4(int x, int y, int z, int w) { return {x, y, z, w}; }
inline unsigned __umulhi(unsigned a, unsigned b) { return static_cast<unsigned long long>(a) * b >> 32; }
inline unsigned long long __umul64hi(unsigned long long a, unsigned long long b) {
  return static_cast<unsigned long long>(static_cast<unsigned __int128>(a) * b >> 64);
}
inline void __threadfence() {}
template <class T>
T min(T a, T b) {
  return b < a ? b : a;
}
template <class T>
T max(T a, T b) {
  return a < b ? b : a;
}
template <class T>
void atomicMax(T* at, T value) {
  *at = max(*at, value);
}
template <class T>
void atomicAdd(T* at, T value) {
  *at += value;
}

class Fibers {
 public:
  static constexpr int THREADS = 64;

 private:
  static constexpr int STACK = 64 << 10;
  ucontext_t scheduler_, fibers_[THREADS];
  std::unique_ptr<char[]> stacks_ = std::unique_ptr<char[]>(new char[THREADS * STACK]);
  bool done_[THREADS] = {};
  int running_ = 0, turns_[THREADS] = {};
  unsigned seed_;
  unsigned long long shared_[2][THREADS];
  void (*body_)(Fibers&, void*);
  void* of_;

  static void start(unsigned low, unsigned high) {
    auto* self = reinterpret_cast<Fibers*>(static_cast<unsigned long long>(high) << 32 | low);
    self->body_(*self, self->of_);
    self->done_[self->running_] = true;
    self->sync();
  }

  unsigned random() { return seed_ = seed_ * 1664525 + 1013904223; }

  // What all threads have put down, each for itself.
  const unsigned long long* put(unsigned long long value) {
    unsigned long long* all = shared_[turns_[running_]++ % 2];
    all[running_] = value;
    sync();
    return all;
  }

 public:
  Fibers(unsigned seed, void (*body)(Fibers&, void*), void* of) : seed_(seed), body_(body), of_(of) {
    auto self = reinterpret_cast<unsigned long long>(this);
    for (int i = 0; i < THREADS; ++i) {
      getcontext(&fibers_[i]);
      fibers_[i].uc_stack.ss_sp = stacks_.get() + i * STACK;
      fibers_[i].uc_stack.ss_size = STACK;
      makecontext(&fibers_[i], reinterpret_cast<void (*)()>(start), 2, static_cast<unsigned>(self), static_cast<unsigned>(self >> 32));
    }
    for (int left = THREADS; left > 0;) {
      int order[THREADS];
      for (int i = 0; i < THREADS; ++i) {
        int j = random() % (i + 1);
        order[i] = order[j];
        order[j] = i;
      }
      for (int i : order) {
        running_ = i;
        swapcontext(&scheduler_, &fibers_[i]);
      }
      left = 0;
      for (bool done : done_) left += !done;
      if (left > 0 && left < THREADS) {
        std::fprintf(stderr, "%d of %d threads wait at a barrier for the others\n", left, THREADS);
        std::abort();
      }
    }
  }

  int thread() const { return running_; }
  void sync() {
    int self = running_;
    swapcontext(&fibers_[self], &scheduler_);
  }
  bool any(bool mine) {
    const unsigned long long* all = put(mine);
    bool result = false;
    for (int i = 0; i < THREADS; ++i) result |= all[i] != 0;
    return result;
  }
  unsigned long long sum_before(unsigned long long value, int count, unsigned long long& total) {
    if (running_ >= count && value != 0) std::abort();
    const unsigned long long* all = put(value);
    unsigned long long before = total = 0;
    for (int i = 0; i < THREADS; ++i) {
      if (i < running_) before += all[i];
      total += all[i];
    }
    return before;
  }
  bool any_and_most(bool mine, int value, int& most) {
    const unsigned long long* all = put(static_cast<unsigned long long>(mine) << 32 | static_cast<unsigned>(value));
    bool is_so = false;
    most = 0;
    for (int i = 0; i < THREADS; ++i) {
      is_so |= all[i] >> 32 != 0;
      most = max(most, static_cast<int>(all[i] & 0xffffffff));
    }
    return is_so;
  }
  unsigned long long least(unsigned long long value) {
    const unsigned long long* all = put(value);
    unsigned long long result = ~0ull;
    for (int i = 0; i < THREADS; ++i) result = min(result, all[i]);
    return result;
  }
};
