// The keys of a span. Most variants count them from the first of the request; one with lists counts along the list of its rows,
// and where a key is, the list says.
#pragma once
#include "schedule/q_tile.cuh"

class SpanKeys {
  const KernelParams* p_;
  const Variant* variant_;
  RowIndex row_;  // of the block's first row, whose list serves them all
  int end_;
  unsigned blocks_ = 0;  // under a list: of the request

 public:
  template <class Item>
  SpanKeys(const KernelParams& p, const Variant& variant, const QueryBlock& block, const Item& item)
      : p_(&p), variant_(&variant), row_(block.at(p, 0)), end_(item.kv_end) {
    if constexpr (Variant::HAS_KV_LIST) {
      // The span may be that of another KV head's longer list.
      long long listed = row_.kv_len == 0 ? 0 : static_cast<long long>(variant.kv_list_len(row_)) * p.list_block.divisor;
      end_ = max(item.kv_begin, static_cast<int>(min(listed, static_cast<long long>(end_))));
      blocks_ = row_.kv_len == 0 ? 0 : divide(row_.kv_len - 1, p.list_block) + 1;
    }
  }

  // One past the last key; not before the first.
  int end() const { return end_; }

  // Position in the request of a key of the span, of which `exists` then asks.
  int position(int key) const {
    if constexpr (Variant::HAS_KV_LIST) return position(key, listed(key));
    return key;
  }
  // The block that the list says a key is in, and its position there.
  int listed(int key) const { return key < end_ ? variant_->kv_list_block(row_, slot(key)) : -1; }
  int position(int key, unsigned block) const {
    unsigned position = (block - slot(key)) * p_->list_block.divisor + key;  // of a block that is there, below 2^31
    return block < blocks_ && position < static_cast<unsigned>(row_.kv_len) ? static_cast<int>(position) : -1;
  }
  // Which block of the list a key of the span is of.
  int slot(int key) const { return Variant::HAS_KV_LIST ? divide(key, p_->list_block) : 0; }
  bool exists(int position) const { return Variant::HAS_KV_LIST ? position >= 0 : position < end_; }
  // A key to load where there is none: the mask hides its logits, and its values are finite (0 * NaN is not 0).
  int existing(int position) const { return Variant::HAS_KV_LIST ? max(position, 0) : min(position, end_ - 1); }
};
