// What a worker copies: the steps of all of its items, one after the other, so that loads do not stop where one ends. Every warp of
// the CTA goes through them alike, so that all agree without talking.
#pragma once
#include "schedule/kv_step_iter.cuh"
#include "schedule/work_list.cuh"

class KeyFeed {
  const KernelParams& p_;
  const Variant& variant_;
  int kv_head_;
  int item_, end_;  // the item at hand, and one past the worker's last
  Request request_;
  SpanKeys span_;
  KeyWalk walk_;
  bool lines_;  // whether 16 keys from a multiple of 16 of the span on lie in a line of memory
  int asked_ = -1;  // under a list: the step, of which the list was asked ahead; -1: of none
  int block_ = 0;   // what it said of this lane's key

  KeyFeed(const KernelParams& p, const Variant& variant, int kv_head, int item, int end, const Work::Item& work,
          const QueryBlock& block)
      : p_(p), variant_(variant), kv_head_(kv_head), item_(item), end_(end), request_(block.request), span_(p, variant, block, work),
        walk_(p, variant, block, work.kv_begin, span_.end()), lines_(in_lines(p, block.request, work.kv_begin)) {}
  KeyFeed(const KernelParams& p, const Variant& variant, int kv_head, int item, int end, const Work::Item& work)
      : KeyFeed(p, variant, kv_head, item, end, work, QueryBlock(work, kv_head)) {}

  static bool in_lines(const KernelParams& p, const Request& request, int kv_begin) {
    if (Variant::HAS_KV_LIST && p.list_block.divisor % 16 != 0) return false;
    return !KV_PAGED || (p.page_size.divisor % 16 == 0 && (!SHARED_ROWS || in_memory(request, kv_begin) % 16 == 0));
  }

 public:
  // Of a worker that has items.
  KeyFeed(const KernelParams& p, const Variant& variant, int kv_head, const Work::Start& start)
      : KeyFeed(p, variant, kv_head, start.first, start.end, start.item) {}

  // The next step; its item is `end` when all are over.
  KeyStep next() {
    while (item_ < end_) {
      KeyStep step = walk_.next(variant_);
      if (step.key < span_.end()) {
        step.item = item_;
        return step;
      }
      if (++item_ == end_) break;
      Work::Item work = Work::items(p_)[item_];
      QueryBlock block(work, kv_head_);
      request_ = block.request;
      span_ = SpanKeys(p_, variant_, block, work);
      walk_ = KeyWalk(p_, variant_, block, work.kv_begin, span_.end());
      if constexpr (SHARED_ROWS) lines_ = in_lines(p_, request_, work.kv_begin);
      asked_ = -1;
    }
    return {end_, 0, false, 0, false, false};
  }

  // Of the step that `next` gave last: which page this lane's key is in, of the warp's WARP_KEYS from `first`; for `look_up`.
  KeyPlace find(KeyStep& step, int first) {
    if (step.item == end_) return {-1, 0};
    int key = step.key + first + threadIdx.x % WARP_KEYS, position = key;
    if constexpr (Variant::HAS_KV_LIST) {
      position = look_in_list(step.key, key);
      step.position = position;
      step.there = __all_sync(ALL_LANES, position >= 0);
      step.in_line = lines_ && step.there;
    } else {
      step.in_line = lines_ && step.key + first + WARP_KEYS <= span_.end();
    }
    return page_of_key<KV_PAGED>(p_, request_, span_.existing(position));
  }

 private:
  // Where the list says that a key of a step is. It takes about as long to answer as a step does, so that it is asked of the next one now.
  int look_in_list(int step, int key) {
    int block = step == asked_ ? block_ : span_.listed(key);
    asked_ = step + STEP_KEYS;
    if (asked_ < span_.end()) block_ = span_.listed(key + STEP_KEYS);
    return span_.position(key, block);
  }
};
