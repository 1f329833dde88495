// Rows of keys of KV formats, in place of latent/dense_rows.cuh.
#pragma once
#include "abi/launch_params.cuh"
#include "memory/address.cuh"
#include "memory/f16_eight.cuh"
#include "memory/loaded_bytes.cuh"

class StoredRow {
  const Variant* variant_;
  const char *codes_, *side_;
  int kv_head_;

  static const char* bytes(const Strided& t, KvLocation location, int kv_head) {
    return static_cast<const char*>(t.data) + key_offset<KV_PAGED>(t, location) + kv_head * t.head;
  }
  template <class As, bool LOADED>
  As decode(LoadedNumbers& numbers, int element) const {
    numbers.count = 0;
    LoadedBytes<8, LOADED> codes(GlobalBytes<8>(codes_), numbers);
    LoadedBytes<4, LOADED> side(GlobalBytes<4>(side_), numbers);
    return variant_->key_format.template decode<As>(codes, side, kv_head_, element);
  }

 public:
  using Eight = LoadedNumbers;
  // Side data takes registers for each eight.
  static constexpr int AT_ONCE = K_SIDE_BYTES > 0 ? 10 : 20;

  StoredRow() = default;
  StoredRow(const KernelParams& p, const Variant& variant, KvLocation location, int kv_head)
      : variant_(&variant),
        codes_(bytes(p.k, location, kv_head)),
        side_(bytes(kv_sides(p).k, location, kv_head)),
        kv_head_(kv_head) {}

  Eight load(int element) const {
    Eight loaded;
    (void)decode<F16Eight, false>(loaded, element);
    return loaded;
  }
  bool fits_f16(Eight& loaded, int element) const { return decode<FitsF16, true>(loaded, element).fits; }
  template <bool FITS_F16>
  uint4 decoded(Eight& loaded, int element) const {
    return decode<Choose<FITS_F16, ScaledInF16, F16Eight>, true>(loaded, element).pairs;
  }
  void prefetch() const {
    for (int byte = 0; byte < K_CODE_BYTES; byte += 128) prefetch_l2(codes_ + byte);
    if constexpr (K_SIDE_BYTES > 0) prefetch_l2(side_);
  }
};
