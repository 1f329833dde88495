// cp.async: a copy happens when it is issued, or as late as a wait for it allows. Until then its destination is
// poisoned, so that a missing wait shows.
struct PendingCopy {
  unsigned char* to;
  const void* from;
  int bytes, group;
};
// The copies of a thread that have not happened yet, in order, and the number of groups that it has committed.
struct ThreadCopies {
  std::vector<PendingCopy> pending;
  int committed = 0;

  // Makes the copies of all groups before `group` happen.
  void finish(int group) {
    size_t count = 0;
    for (; count < pending.size() && pending[count].group < group; ++count)
      std::memcpy(pending[count].to, pending[count].from, static_cast<size_t>(pending[count].bytes));
    pending.erase(pending.begin(), pending.begin() + static_cast<std::ptrdiff_t>(count));
  }
};
inline ThreadCopies& thread_copies() {
  return of_running_cta<std::array<ThreadCopies, 1024>>()[threadIdx.x];
}

inline void copy_async(unsigned shared, const void* global, int bytes) {
  unsigned char* to = at_shared(shared, static_cast<unsigned>(bytes), "cp.async");
  aligned_global(global, static_cast<unsigned>(bytes), "cp.async");
  generic_proxy_writes(shared);
  ThreadCopies& copies = thread_copies();
  if (Fibers::running->random() & 1) {
    std::memcpy(to, global, static_cast<size_t>(bytes));
  } else {
    std::memset(to, 0xff, static_cast<size_t>(bytes));
    copies.pending.push_back({to, global, bytes, copies.committed});
  }
}
inline void cp_async_16(unsigned shared, const void* global) { copy_async(shared, global, 16); }
inline void cp_async_16(unsigned shared, const void* global, int bytes) {
  unsigned char padded[16] = {};
  std::memcpy(padded, global, static_cast<size_t>(bytes));
  std::memcpy(at_shared(shared, 16, "cp.async"), padded, 16);
}
inline void cp_async_16(unsigned shared, const void* global, unsigned long long) { copy_async(shared, global, 16); }
inline void cp_async_8(unsigned shared, const void* global) { copy_async(shared, global, 8); }
inline unsigned long long evict_first_policy() { return 0; }
inline void cp_async_commit() { ++thread_copies().committed; }
template <int pending>
void cp_async_wait() {
  ThreadCopies& copies = thread_copies();
  copies.finish(copies.committed - pending);
}
inline void cp_async_4(unsigned shared, const void* global) { copy_async(shared, global, 4); }
