// Bias terms that the sm_90 consumers add to S after gemm_qk: slopes that are affine in the key (such as ALiBi), or
// elements of a parameter tensor.
#pragma once
#include "softmax/score_tile.cuh"
#include "softmax/units.cuh"

// No bias. HAS_ROW_TERM: S lacks a term per row, `row_term`, and a slope per column, `slope`, until `add_slopes` adds
// the latter. PREFETCHED: elements are loaded before gemm_qk has completed, and can be added only once.
struct NoBias {
  static constexpr bool HAS_ROW_TERM = false, PREFETCHED = false;
  explicit NoBias(const ScoreTile&) {}
  static void add(ScoreFragment&) {}
  static void add_slopes(ScoreFragment&) {}
  static constexpr float row_term(int) { return 0.f; }
};

// Coordinates of a row of the tile and of this thread's first key there.
inline LogitIndex first_coordinates(const ScoreTile& tile, int r) {
  LogitIndex at;
  static_cast<RowIndex&>(at) = tile.q_tile.at(tile.p, fragment_row(r));
  at.kv_step = 0;
  at.kv_pos = tile.position(fragment_column());
  at.kv_token = first_key_token(tile.p, tile.q_tile.request, at) + at.kv_pos;
  return at;
}

// BIAS_AFFINE: the row term is the bias at this thread's first key, in units of Q K^T.
struct AffineBias {
  static constexpr bool HAS_ROW_TERM = true, PREFETCHED = false;
  float row_term_[ROWS_PER_THREAD], slope_[ROWS_PER_THREAD];

  explicit AffineBias(const ScoreTile& tile) {
    float unit = 1.f / tile.unit;
#pragma unroll
    for (int r = 0; r < ROWS_PER_THREAD; ++r) {
      LogitIndex at = first_coordinates(tile, r);
      row_term_[r] = scaled(tile.variant.logits_bias(at), unit);
      slope_[r] = tile.variant.logits_slope(at) * unit;
    }
  }
  static void add(ScoreFragment&) {}
  // Adds slope * (key - this thread's first key).
  void add_slopes(ScoreFragment& s) const {
#pragma unroll
    for (int r = 0; r < ROWS_PER_THREAD; ++r)
#pragma unroll
      for (int n = 0; n < TILE_KEYS / 8; ++n)
#pragma unroll
        for (int e = 0; e < 2; ++e) s[r / 2][n][r % 2 * 2 + e] = fmaf(slope_[r], 8 * n + e, s[r / 2][n][r % 2 * 2 + e]);
  }
  float row_term(int r) const { return row_term_[r]; }
  float slope(int r) const { return slope_[r]; }
};

template <class T>
using StorageElem = Choose<SAME<T, lang::F16>, f16, bf16>;

// Two neighbouring elements as stored in memory.
template <class T>
struct ElementPair {
  unsigned bits;

  void load(const T* p) { bits = load_nc_4(p); }
  void set(T first, T second) { bits = first.bits | static_cast<unsigned>(second.bits) << 16; }
  float2 values() const { return unpack2<StorageElem<T>>(bits); }
};
template <>
struct ElementPair<float> {
  float2 bits;

  void load(const float* p) { bits = load_nc_8(p); }
  void set(float first, float second) { bits = {first, second}; }
  float2 values() const { return bits; }
};

// BIAS_TENSOR_ROWS: elements of a parameter tensor. They are prefetched before the wait for gemm_qk if there are
// registers for them.
template <class T>
class TensorBias {
  struct Pairs {
    ElementPair<T> pair[TILE_KEYS / 8];
  };

 public:
  static constexpr bool HAS_ROW_TERM = false, PREFETCHED = WARPS == 8 && sizeof(T) == 2;

 private:
  const ScoreTile& tile_;
  Pairs pairs_[ROWS_PER_THREAD];

  // Loads the elements of this thread's r-th row.
  Pairs load_row(int r) const {
    LogitIndex at = first_coordinates(tile_, r);
    lang::ElementRow<T> row = tile_.variant.logits_bias_row(at);
    const T* first = row.data + at.kv_pos;
    Pairs pairs;
    if (tile_.first_key + TILE_KEYS <= row.extent &&
        reinterpret_cast<unsigned long long>(first) % sizeof(ElementPair<T>) == 0) {
#pragma unroll
      for (int n = 0; n < TILE_KEYS / 8; ++n) pairs.pair[n].load(first + 8 * n);
    } else {  // keys past the last element of the row take the last element
      T last = row.data[row.extent - 1];
      auto element = [&](int i) { return at.kv_pos + i < row.extent ? first[i] : last; };
#pragma unroll
      for (int n = 0; n < TILE_KEYS / 8; ++n) pairs.pair[n].set(element(8 * n), element(8 * n + 1));
    }
    return pairs;
  }

 public:
  explicit TensorBias(const ScoreTile& tile) : tile_(tile) {
    if constexpr (PREFETCHED)
#pragma unroll
      for (int r = 0; r < ROWS_PER_THREAD; ++r) pairs_[r] = load_row(r);
  }
  void add(ScoreFragment& s) const {
    float unit = 1.f / tile_.unit;
#pragma unroll
    for (int r = 0; r < ROWS_PER_THREAD; ++r) {
      Pairs pairs = PREFETCHED ? pairs_[r] : load_row(r);
#pragma unroll
      for (int n = 0; n < TILE_KEYS / 8; ++n) {
        float2 added = pairs.pair[n].values();
        s[r / 2][n][r % 2 * 2] = fmaf(added.x, unit, s[r / 2][n][r % 2 * 2]);
        s[r / 2][n][r % 2 * 2 + 1] = fmaf(added.y, unit, s[r / 2][n][r % 2 * 2 + 1]);
      }
    }
  }
  static void add_slopes(ScoreFragment&) {}
  static constexpr float row_term(int) { return 0.f; }
};

template <bool AFFINE, bool IN_ROWS, class Row>
struct BiasSelector {
  using Type = NoBias;
};
template <class Row>
struct BiasSelector<true, false, Row> {
  using Type = AffineBias;
};
template <class T>
struct BiasSelector<false, true, lang::ElementRow<T>> {
  using Type = TensorBias<T>;
};
using Bias = BiasSelector<BIAS_AFFINE, BIAS_TENSOR_ROWS, BiasRow>::Type;
