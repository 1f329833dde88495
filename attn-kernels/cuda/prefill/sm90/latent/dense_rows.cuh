// Rows of keys that DecodingLoader loads: of fp8, whose elements f16 represents exactly. Over rows of KV formats
// latent/format_rows.cuh takes its place.
#pragma once
#include "arch/element.cuh"
#include "memory/address.cuh"

class StoredRow {
  const KvElem* row_;

 public:
  // Eight elements as they are stored.
  using Eight = uint2;
  // Eights that a thread loads before it stores the first: as many as registers hold.
  static constexpr int AT_ONCE = 20;

  StoredRow() = default;
  StoredRow(const KernelParams& p, const Variant&, KvLocation location, int kv_head)
      : row_(static_cast<const KvElem*>(p.k.data) + key_offset<KV_PAGED>(p.k, location) + kv_head * p.k.head) {}

  Eight load(int element) const { return *reinterpret_cast<const uint2*>(row_ + element); }
  static constexpr bool fits_f16(Eight, int) { return true; }
  template <bool>
  static uint4 decoded(Eight x, int) {
    return widened<KvElem>(x);
  }
  void prefetch() const {
    for (int dim = 0; dim < HEAD_DIM_QK; dim += 128) prefetch_l2(row_ + dim);
  }
};
