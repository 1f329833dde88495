// Which work a CTA does: the first piece by its number, others by ticket. A piece is on its way to shared memory while the one before is at work.
#pragma once
#include "prefill/sm90/pipeline.cuh"

// By one thread. Not an addition, of which the assembler makes one for all lanes that ask, and has them wait for it there.
inline unsigned count_up(unsigned* counter) {
  unsigned before;
  asm volatile("atom.relaxed.gpu.global.inc.u32 %0, [%1], 0x7fffffff;" : "=r"(before) : "l"(counter) : "memory");
  return before;
}

// Of those that copy, one asks. The two counters, tickets and CTAs that have seen the end, are 0 between launches.
class WorkTickets {
  const KernelParams& p_;
  const WarpgroupParams& w_;
  const Ring& ring_;
  unsigned all_ = w_.items * p_.kv_heads;
  bool asks_ = is_first_of(CopyWarp::WORK), shares_ = gridDim.x < all_;
  unsigned ticket_ = 0;  // of who asks: untouched until it is needed, since it takes long to come
  int taken_ = 0;

 public:
  WorkTickets(const KernelParams& p, const WarpgroupParams& w, const Ring& ring) : p_(p), w_(w), ring_(ring) {}

  // The answer is on its way until `fetch`.
  void ask() {
    if (asks_ && shares_) ticket_ = count_up(p_.arrivals);
  }
  // The item, piece `number` of this CTA, is on its way until `take`.
  void fetch(int number) {
    if (!asks_) return;
    unsigned work = taken_ == 0 ? blockIdx.x : shares_ ? gridDim.x + ticket_ : all_;
    ring_.next_work(taken_) = work;
    if (work >= all_) return;
    CtaPlace place = cta_place(work, w_.items, p_.kv_heads, w_.heads);
    ring_.place(number, p_.items[place.item], place.kv_head);
  }
  // Whether there is another, by all that copy; it is there then.
  bool take() {
    if (asks_) copy_async_wait<0>();
    sync_some(COPY_BARRIER, 32 * COPY_WARPS);
    return ring_.next_work(taken_++) < all_;
  }
  // After all work.
  void end() const {
    if (asks_ && shares_ && count_arrival(p_.arrivals + 1) == gridDim.x - 1) p_.arrivals[0] = p_.arrivals[1] = 0;
  }
};
