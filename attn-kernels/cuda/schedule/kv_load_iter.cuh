// KV load iterator of a decode worker: the steps of all of its work items in order, so that loads continue across
// items. Every warp of the CTA iterates alike, so that no communication is needed.
#pragma once
#include "schedule/kv_step_iter.cuh"

class KvLoadIter {
  const KernelParams& p_;
  const Variant& variant_;
  int kv_head_;
  int item_, end_;  // current item, and one past the worker's last
  Request request_;
  KvRange kv_range_;
  KvStepIter step_iter_;
  bool contiguous_;           // whether 16 keys from a multiple of 16 of the KV range on are contiguous in memory
  int prefetched_step_ = -1;  // with a KV list: the step whose list entry was prefetched; -1: none
  int prefetched_block_ = 0;  // the prefetched list entry of this lane's key

  KvLoadIter(const KernelParams& p, const Variant& variant, int kv_head, int item, int end, const WorkItem& work,
             const QTile& q_tile)
      : p_(p),
        variant_(variant),
        kv_head_(kv_head),
        item_(item),
        end_(end),
        request_(q_tile.request),
        kv_range_(p, variant, q_tile, work),
        step_iter_(p, variant, q_tile, work.kv_begin, kv_range_.end()),
        contiguous_(are_contiguous(p, q_tile.request, work.kv_begin)) {}
  KvLoadIter(const KernelParams& p, const Variant& variant, int kv_head, int item, int end, const WorkItem& work)
      : KvLoadIter(p, variant, kv_head, item, end, work, QTile(work, kv_head)) {}

  static bool are_contiguous(const KernelParams& p, const Request& request, int kv_begin) {
    if (Variant::HAS_KV_LIST && p.list_block.divisor % 16 != 0) return false;
    return !KV_PAGED ||
           (p.page_size.divisor % 16 == 0 && (!SHARED_ROWS || position_in_memory(request, kv_begin) % 16 == 0));
  }

 public:
  // A worker without items has no steps. Its first item is zeros.
  KvLoadIter(const KernelParams& p, const Variant& variant, int kv_head, const WorkerStart& start)
      : KvLoadIter(p, variant, kv_head, start.first, start.end, start.item) {}

  // Returns the next step; its item is `end` when all are done.
  KvStep next() {
    while (item_ < end_) {
      KvStep step = step_iter_.next(variant_);
      if (step.key < kv_range_.end()) {
        step.item = item_;
        return step;
      }
      if (++item_ == end_) break;
      WorkItem work = p_.items[item_];
      QTile q_tile(work, kv_head_);
      request_ = q_tile.request;
      kv_range_ = KvRange(p_, variant_, q_tile, work);
      step_iter_ = KvStepIter(p_, variant_, q_tile, work.kv_begin, kv_range_.end());
      if constexpr (SHARED_ROWS) contiguous_ = are_contiguous(p_, request_, work.kv_begin);
      prefetched_step_ = -1;
    }
    return {end_, 0, false, 0, false, false};
  }

  // For the step that `next` returned last: the page-table entry of this lane's key, one of the WARP_KEYS keys from
  // `first` on; `resolve_page` then reads the page.
  KvLocation locate(KvStep& step, int first) {
    if (step.item == end_) return {-1, 0};
    int key = step.key + first + threadIdx.x % WARP_KEYS, position = key;
    if constexpr (Variant::HAS_KV_LIST) {
      position = position_in_list(step.key, key);
      step.position = position;
      step.all_exist = __all_sync(ALL_LANES, position >= 0);
      step.contiguous = contiguous_ && step.all_exist;
    } else {
      step.contiguous = contiguous_ && step.key + first + WARP_KEYS <= kv_range_.end();
    }
    return locate_page_entry<KV_PAGED>(p_, request_, kv_range_.clamp(position));
  }

 private:
  // Position of a key of a step with a KV list. The look-up takes about as long as a step, so that the next one is
  // prefetched here.
  int position_in_list(int step, int key) {
    int block = step == prefetched_step_ ? prefetched_block_ : kv_range_.block_in_list(key);
    prefetched_step_ = step + STEP_KEYS;
    if (prefetched_step_ < kv_range_.end()) prefetched_block_ = kv_range_.block_in_list(key + STEP_KEYS);
    return kv_range_.position(key, block);
  }
};
