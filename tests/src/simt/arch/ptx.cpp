// The wrappers of arch/ptx.cuh: arithmetic, shared and global memory, barriers.
inline float exp2_approx(float x) { return std::exp2(x); }
inline float log2_approx(float x) { return std::log2(x); }
// Below a sum of 2^23 or more, floor is what rounding towards -inf leaves.
inline float exp2_emulated(float x) {
  x = fmaxf(x, -126.f);
  float whole = std::floor(x), rest = x - whole;
  float power = fmaf(fmaf(fmaf(0.0771190f, rest, 0.2275644f), rest, 0.6951461f), rest, 1.f);
  return __int_as_float((static_cast<int>(whole) << 23) + __float_as_int(power));
}

inline void prefetch_l2(const void*) {}

template <class T>
void keep_in_register(T*&) {}
inline void keep_in_register(unsigned&) {}

// Which thread wrote each 16 bytes of dynamic shared memory last by the generic proxy (st.shared, cp.async), and when;
// and when each thread fenced the proxies last. TMA may write only over what was fenced.
struct ProxyOrder {
  struct Written {
    unsigned time, thread;
  } written[sizeof shared_memory / 16];
  unsigned fenced[1024];
  unsigned now;
};
inline ProxyOrder& proxy_order() { return of_running_cta<ProxyOrder>(); }
inline void generic_proxy_writes(unsigned shared) {
  ProxyOrder& order = proxy_order();
  if (shared < sizeof shared_memory) order.written[shared / 16] = {++order.now, threadIdx.x};
}
inline void async_proxy_writes(unsigned shared, unsigned bytes, const char* instruction) {
  ProxyOrder& order = proxy_order();
  for (unsigned i = shared / 16; i < (shared + bytes) / 16; ++i)
    if (order.written[i].time > order.fenced[order.written[i].thread])
      fail("memory that another proxy wrote and did not fence:", instruction);
}
inline void fence_proxies() { proxy_order().fenced[threadIdx.x] = ++proxy_order().now; }

template <class T>
T load_shared(unsigned shared) {
  T value;
  std::memcpy(&value, at_shared(shared, sizeof value, "ld.shared"), sizeof value);
  return value;
}
template <class T>
void store_shared(unsigned shared, T value) {
  std::memcpy(at_shared(shared, sizeof value, "st.shared"), &value, sizeof value);
  generic_proxy_writes(shared);
}
inline void store_shared_16(unsigned shared, uint4 v) { store_shared(shared, v); }
inline void store_shared_8(unsigned shared, uint2 v) { store_shared(shared, v); }
inline void store_shared_4(unsigned shared, unsigned v) { store_shared(shared, v); }
inline unsigned load_shared_2(unsigned shared) { return load_shared<unsigned short>(shared); }
inline unsigned load_shared_4(unsigned shared) { return load_shared<unsigned>(shared); }
inline uint2 load_shared_8(unsigned shared) { return load_shared<uint2>(shared); }
inline uint4 load_shared_16(unsigned shared) { return load_shared<uint4>(shared); }

// A named barrier of the CTA: how many threads the current phase is for, how many have arrived, and completed phases.
// Whether all have said yes, in this phase and in the one before: none begins the next before it has read that.
struct NamedBarrier {
  int threads = 0, arrived = 0, phases = 0;
  bool all = true, all_before = true;
};
// The barrier at which a thread arrives, of `threads` threads.
inline NamedBarrier& arrive_at(int id, int threads) {
  auto& barriers = of_running_cta<std::array<NamedBarrier, 16>>();
  if (id < 1 || id > 15 || threads % 32 != 0) fail("no such barrier:", "bar");
  NamedBarrier& barrier = barriers[id];
  if (barrier.arrived == 0) barrier.threads = threads;
  if (barrier.threads != threads) fail("threads at a barrier expect different numbers of threads:", "bar");
  return barrier;
}
inline void arrive_once(NamedBarrier& barrier) {
  if (++barrier.arrived < barrier.threads) return;
  barrier.arrived = 0, ++barrier.phases;
  barrier.all_before = barrier.all, barrier.all = true;
}
inline void named_barrier_arrive(int id, int threads) { arrive_once(arrive_at(id, threads)); }
inline void named_barrier_sync(int id, int threads) {
  NamedBarrier& barrier = arrive_at(id, threads);
  int phase = barrier.phases;
  arrive_once(barrier);
  Fibers::running->wait_for(barrier.phases, phase + 1);
}
inline bool named_barrier_all(int id, int threads, bool mine) {
  NamedBarrier& barrier = arrive_at(id, threads);
  barrier.all &= mine;
  int phase = barrier.phases;
  arrive_once(barrier);
  Fibers::running->wait_for(barrier.phases, phase + 1);
  return barrier.all_before;
}

inline const void* aligned_global(const void* p, unsigned bytes, const char* instruction) {
  if (reinterpret_cast<uintptr_t>(p) % bytes != 0) fail("an unaligned address in global memory:", instruction);
  return p;
}
inline void store_16(void* to, uint4 v) {
  aligned_global(to, 16, "st.global.v4");
  std::memcpy(to, &v, sizeof v);
}
inline float4 load_l2_16(const void* p) { return *static_cast<const float4*>(aligned_global(p, 16, "ld.global.v4")); }
inline float2 load_l2_8(const void* p) { return *static_cast<const float2*>(aligned_global(p, 8, "ld.global.v2")); }
inline unsigned load_nc_4(const void* p) { return *static_cast<const unsigned*>(aligned_global(p, 4, "ld.global.nc")); }
inline float2 load_nc_8(const void* p) { return *static_cast<const float2*>(aligned_global(p, 8, "ld.global.nc")); }
inline unsigned semaphore_arrive(unsigned* arrivals) { return (*arrivals)++; }
