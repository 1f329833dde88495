// Rows of keys of KV formats, in place of latent/dense_rows.cuh.
#pragma once
#include "abi/launch_params.cuh"
#include "memory/address.cuh"

class StoredRow {
  const Variant& variant_;
  GlobalBytes<8> codes_;
  GlobalBytes<4> side_;
  int kv_head_;

  static const char* bytes(const Strided& t, KvLocation location, int kv_head) {
    return static_cast<const char*>(t.data) + key_offset<KV_PAGED>(t, location) + kv_head * t.head;
  }

 public:
  // Eight elements, which a format decodes as it loads them.
  using Eight = uint4;
  static constexpr int AT_ONCE = 8;

  StoredRow(const KernelParams& p, const Variant& variant, KvLocation location, int kv_head)
      : variant_(variant),
        codes_(bytes(p.k, location, kv_head)),
        side_(bytes(kv_sides(p).k, location, kv_head)),
        kv_head_(kv_head) {}

  Eight load(int element) const {
    Array<float, 8> x = variant_.key_format.decode(codes_, side_, kv_head_, element);
    auto pair = [&](int i) { return pack2_f16_satfinite(x.x[i], x.x[i + 1]); };
    return {pair(0), pair(2), pair(4), pair(6)};
  }
  static uint4 decoded(Eight x) { return x; }
  void prefetch() const {
    for (int byte = 0; byte < K_CODE_BYTES; byte += 128) prefetch_l2(codes_.p + byte);
    if constexpr (K_SIDE_BYTES > 0) prefetch_l2(side_.p);
  }
};
