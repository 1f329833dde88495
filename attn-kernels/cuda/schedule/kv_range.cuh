// The KV range of a work item: the keys that one KV split covers. Keys count from the first key of the request, or
// along the KV list of the rows where the variant has one.
#pragma once
#include "schedule/q_tile.cuh"

class KvRange {
  const KernelParams* p_;
  const Variant* variant_;
  RowIndex row_;  // of the first row of the Q tile; all rows share its list
  int end_;
  unsigned blocks_ = 0;  // with a KV list: blocks of the request

 public:
  KvRange(const KernelParams& p, const Variant& variant, const QTile& q_tile, const WorkItem& item)
      : p_(&p), variant_(&variant), row_(q_tile.at(p, 0)), end_(item.kv_end) {
    if constexpr (Variant::HAS_KV_LIST) {
      // the range can be that of another KV head's longer list
      long long listed =
          row_.kv_len == 0 ? 0 : static_cast<long long>(variant.kv_list_len(row_)) * p.list_block.divisor;
      end_ = max(item.kv_begin, static_cast<int>(min(listed, static_cast<long long>(end_))));
      blocks_ = row_.kv_len == 0 ? 0 : divide(row_.kv_len - 1, p.list_block) + 1;
    }
  }

  // One past the last key; not before the first one.
  int end() const { return end_; }

  // Position in the request of a key of the range; `exists` tells whether there is such a key.
  int position(int key) const {
    if constexpr (Variant::HAS_KV_LIST) return position(key, block_in_list(key));
    return key;
  }
  // The list's block that holds a key, and the key's position in the request.
  int block_in_list(int key) const { return key < end_ ? variant_->kv_list_block(row_, slot(key)) : -1; }
  int position(int key, unsigned block) const {
    unsigned position = (block - slot(key)) * p_->list_block.divisor + key;  // below 2^31 for a block of the request
    return block < blocks_ && position < static_cast<unsigned>(row_.kv_len) ? static_cast<int>(position) : -1;
  }
  // The index of the list's block that holds a key of the range.
  int slot(int key) const { return Variant::HAS_KV_LIST ? divide(key, p_->list_block) : 0; }
  bool exists(int position) const { return Variant::HAS_KV_LIST ? position >= 0 : position < end_; }
  // Clamps to a key that exists, for loads: the mask hides its S, and its V is finite (0 * NaN is not 0).
  int clamp(int position) const { return Variant::HAS_KV_LIST ? max(position, 0) : min(position, end_ - 1); }
};
