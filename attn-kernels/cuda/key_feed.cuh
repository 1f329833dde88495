// What a worker copies: the steps of all of its items, one after the other, so that loads do not stop where one ends. Every warp of
// the CTA goes through them alike, so that all agree without talking.
#pragma once
#include "key_walk.cuh"

class KeyFeed {
  const KernelParams& p_;
  const Variant& variant_;
  int kv_head_;
  int item_, end_;  // the item at hand, and one past the worker's last
  Request request_;
  SpanKeys span_;
  KeyWalk walk_;

  KeyFeed(const KernelParams& p, const Variant& variant, int kv_head, int item, int end, const WorkItem& work,
          const QueryBlock& block)
      : p_(p), variant_(variant), kv_head_(kv_head), item_(item), end_(end), request_(block.request), span_(p, variant, block, work),
        walk_(p, block, work.kv_begin, span_.end()) {}
  KeyFeed(const KernelParams& p, const Variant& variant, int kv_head, int item, int end, const WorkItem& work)
      : KeyFeed(p, variant, kv_head, item, end, work, QueryBlock(work, kv_head)) {}

 public:
  // Of a worker that has items.
  KeyFeed(const KernelParams& p, const Variant& variant, int kv_head, const WorkerStart& start)
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
      WorkItem work = p_.items[item_];
      QueryBlock block(work, kv_head_);
      request_ = block.request;
      span_ = SpanKeys(p_, variant_, block, work);
      walk_ = KeyWalk(p_, block, work.kv_begin, span_.end());
    }
    return {end_, 0, false, 0};
  }

  // Of the step that `next` gave last: where its `i`-th key is, and under a list, at which position.
  KeyPlace find(KeyStep& step, int i) const {
    if (step.item == end_) return {0, 0};
    int position = span_.position(step.key + i);
    if constexpr (Variant::HAS_KV_LIST) step.position = position;
    return find_key<KV_PAGED>(p_, request_, KV_PAGED ? page_row(p_, request_) : nullptr, span_.existing(position));
  }
};
