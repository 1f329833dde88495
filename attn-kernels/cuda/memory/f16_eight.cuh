// What a kernel that multiplies in f16 makes of eight decoded elements of a KV format.
#pragma once
#include "arch/element.cuh"
#include "arch/f16x2.cuh"
#include "lang/packed.cuh"

// Four pairs of f16, rounded from f32.
struct F16Eight {
  uint4 pairs;

  F16Eight() = default;
  F16Eight(const Array<float, 8>& x) {
    auto pair = [&](int i) { return pack2_f16_satfinite(x.x[i], x.x[i + 1]); };
    pairs = {pair(0), pair(2), pair(4), pair(6)};
  }
  F16Eight(const ScaledE4m3& e) : F16Eight(static_cast<Array<float, 8>>(e)) {}
};

// The same elements, scaled in f16 where there is a scale: a third of the instructions.
struct ScaledInF16 : F16Eight {
  using F16Eight::F16Eight;
  ScaledInF16(const ScaledE4m3& e) {
    unsigned scale = pack2_f16_satfinite(e.scale, e.scale);
    uint4 x = widened<e4m3>(uint2{e.codes.x[0], e.codes.x[1]});
    pairs = {mul2_f16(x.x, scale), mul2_f16(x.y, scale), mul2_f16(x.z, scale), mul2_f16(x.w, scale)};
  }
};

// Whether they are: the product of an e4m3 and a normal f16 of at most 64 is exact in f32, and within the range of f16.
struct FitsF16 {
  bool fits;

  FitsF16(const Array<float, 8>&) : fits(true) {}
  FitsF16(const ScaledE4m3& e) {
    unsigned bits = __float_as_uint(e.scale), least = __float_as_uint(0x1p-14f), most = __float_as_uint(64.f);
    fits = bits - least <= most - least && bits % (1 << 13) == 0;
  }
};
