// TMA stores: shared memory is read at a random time before a wait for it returns.
struct ThreadStores {
  int issued = 0, committed = 0, done = 0;
};
inline ThreadStores& thread_stores() {
  return of_running_cta<std::array<ThreadStores, 1024>>()[threadIdx.x];
}
inline void tma_store_wait() {
  ThreadStores& stores = thread_stores();
  if (stores.done < stores.committed) Fibers::running->wait_for(stores.done, stores.committed);
  __syncwarp();
}
inline void tma_store_commit() { thread_stores().committed = thread_stores().issued; }
inline void tma_store(const TensorMap& map, unsigned panel, int column, const RowIndex& at) {
  if (threadIdx.x % 32 != 0) return;
  ThreadStores* stores = &thread_stores();
  ++stores->issued;
  EmulatedMap to = emulated(map);
  int head = at.qo_head, token = at.qo_token;
  Fibers::running->later([=] {
    move_box(to, panel, {column, head, token, 0}, false);
    ++stores->done;
  });
}
inline void store_16_of_row(bool exists, void* to, const unsigned (&x)[4]) {
  if (exists) store_16(to, {x[0], x[1], x[2], x[3]});
}
