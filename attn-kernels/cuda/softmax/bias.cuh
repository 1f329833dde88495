// What is added to logits once the products of queries and keys are there, by warpgroups: terms of a row that grow evenly with the key, or elements of a captured tensor.
#pragma once
#include "softmax/score_tile.cuh"
#include "softmax/units.cuh"

// Nothing. OF_ROWS: something of a whole row is left out of the logits, which `of` gives, and what `slope` gives from column to column until `grow` adds it. ASKED_BEFORE:
// what was asked for before the products were there is added once.
struct NoBiases {
  static constexpr bool OF_ROWS = false, ASKED_BEFORE = false;
  explicit NoBiases(const LogitTile&) {}
  static void add(Logits&) {}
  static void grow(Logits&) {}
  static constexpr float of(int) { return 0.f; }
};

// The word of a row of the tile, and of this thread's first key there.
inline LogitIndex first_index(const LogitTile& tile, int r) {
  LogitIndex at;
  static_cast<RowIndex&>(at) = tile.block.at(tile.p, fragment_row(r));
  at.kv_step = 0;
  at.kv_pos = tile.position(fragment_column());
  at.kv_token = first_key_token(tile.p, tile.block.request, at) + at.kv_pos;
  return at;
}

// Under BIAS_AFFINE: of each row the bias of this thread's first key, in the unit of products, is left out.
struct AffineBiases {
  static constexpr bool OF_ROWS = true, ASKED_BEFORE = false;
  float of_[ROWS_PER_THREAD], slope_[ROWS_PER_THREAD];

  explicit AffineBiases(const LogitTile& tile) {
    float unit = 1.f / tile.unit;
#pragma unroll
    for (int r = 0; r < ROWS_PER_THREAD; ++r) {
      LogitIndex at = first_index(tile, r);
      of_[r] = scaled(tile.variant.logits_bias(at), unit);
      slope_[r] = tile.variant.logits_slope(at) * unit;
    }
  }
  static void add(Logits&) {}
  // Adds what comes from this thread's first key on.
  void grow(Logits& s) const {
#pragma unroll
    for (int r = 0; r < ROWS_PER_THREAD; ++r)
#pragma unroll
      for (int n = 0; n < TILE_KEYS / 8; ++n)
#pragma unroll
        for (int e = 0; e < 2; ++e) s[r / 2][n][r % 2 * 2 + e] = fmaf(slope_[r], 8 * n + e, s[r / 2][n][r % 2 * 2 + e]);
  }
  float of(int r) const { return of_[r]; }
  float slope(int r) const { return slope_[r]; }
};

template <class T>
struct StoredAs {
  using Elem = bf16;
};
template <>
struct StoredAs<lang::F16> {
  using Elem = f16;
};

// Two neighbouring elements, as they lie in memory.
template <class T>
struct ElementPair {
  unsigned both;

  void load(const T* p) { asm volatile("ld.global.nc.b32 %0, [%1];" : "=r"(both) : "l"(p)); }
  void set(T first, T second) { both = first.bits | static_cast<unsigned>(second.bits) << 16; }
  float2 values() const { return unpack2<typename StoredAs<T>::Elem>(both); }
};
template <>
struct ElementPair<float> {
  float2 both;

  void load(const float* p) { asm volatile("ld.global.nc.v2.f32 {%0, %1}, [%2];" : "=f"(both.x), "=f"(both.y) : "l"(p)); }
  void set(float first, float second) { both = {first, second}; }
  float2 values() const { return both; }
};

// Under BIAS_IN_ROWS: elements of a captured tensor. They are asked for before products are waited for, if there are registers for them.
template <class T>
class ElementBiases {
  struct Pairs {
    ElementPair<T> of[TILE_KEYS / 8];
  };

 public:
  static constexpr bool OF_ROWS = false, ASKED_BEFORE = WARPS == 8 && sizeof(T) == 2;

 private:
  const LogitTile& tile_;
  Pairs pairs_[ROWS_PER_THREAD];

  // Of this thread's `r`-th row.
  Pairs ask(int r) const {
    LogitIndex at = first_index(tile_, r);
    lang::ElementRow<T> row = tile_.variant.logits_bias_row(at);
    const T* first = row.data + at.kv_pos;
    Pairs pairs;
    if (tile_.first_key + TILE_KEYS <= row.extent && reinterpret_cast<unsigned long long>(first) % sizeof(ElementPair<T>) == 0) {
#pragma unroll
      for (int n = 0; n < TILE_KEYS / 8; ++n) pairs.of[n].load(first + 8 * n);
    } else {  // keys past the last element have that
      T last = row.data[row.extent - 1];
      auto element = [&](int i) { return at.kv_pos + i < row.extent ? first[i] : last; };
#pragma unroll
      for (int n = 0; n < TILE_KEYS / 8; ++n) pairs.of[n].set(element(8 * n), element(8 * n + 1));
    }
    return pairs;
  }

 public:
  explicit ElementBiases(const LogitTile& tile) : tile_(tile) {
    if constexpr (ASKED_BEFORE)
#pragma unroll
      for (int r = 0; r < ROWS_PER_THREAD; ++r) pairs_[r] = ask(r);
  }
  void add(Logits& s) const {
    float unit = 1.f / tile_.unit;
#pragma unroll
    for (int r = 0; r < ROWS_PER_THREAD; ++r) {
      Pairs pairs = ASKED_BEFORE ? pairs_[r] : ask(r);
#pragma unroll
      for (int n = 0; n < TILE_KEYS / 8; ++n) {
        float2 added = pairs.of[n].values();
        s[r / 2][n][r % 2 * 2] = fmaf(added.x, unit, s[r / 2][n][r % 2 * 2]);
        s[r / 2][n][r % 2 * 2 + 1] = fmaf(added.y, unit, s[r / 2][n][r % 2 * 2 + 1]);
      }
    }
  }
  static void grow(Logits&) {}
  static constexpr float of(int) { return 0.f; }
};

template <bool AFFINE, bool IN_ROWS, class Row>
struct BiasesOf {
  using Type = NoBiases;
};
template <class Row>
struct BiasesOf<true, false, Row> {
  using Type = AffineBiases;
};
template <class T>
struct BiasesOf<false, true, lang::ElementRow<T>> {
  using Type = ElementBiases<T>;
};
using Biases = BiasesOf<BIAS_AFFINE, BIAS_IN_ROWS, BiasRow>::Type;
