// The query rows of a decode CTA and their online softmax on tensor cores, as one warp sees it over the keys that it owns.
//
// A warp has blocks of 16 keys and of 8 query rows. Lane l holds, of a block of logits, keys l / 4 and l / 4 + 8 of rows 2 * (l % 4)
// and the next; of outputs, dims in place of keys.
#pragma once

#include "softmax/units.cuh"
#include "decode/operands.cuh"
#include "decode/q_rows.cuh"

constexpr int ROW_BLOCKS = TILE_ROWS / 8;
constexpr int LANE_ROWS = 2 * ROW_BLOCKS;  // rows of which a lane holds logits
constexpr int KEY_BLOCKS = WARP_KEYS / 16;
static_assert(ROW_BLOCKS * 8 == TILE_ROWS, "whole blocks of rows");

// States of an item's rows in shared memory, one of each warp, sums in the stage of its ring that is free.
struct SharedStates {
  static constexpr int MD_BYTES = WARPS * TILE_ROWS * sizeof(float2);

  unsigned char* ring;
  int stage;
  float2* maxima;  // MD_BYTES, with denominators

  static constexpr int PITCH = (VALUE_DIM + 31) / 32 * 32;  // of rows of sums: places are permuted within 32

  // From `dim` on to the next multiple of eight. Lanes that hold a dim of several rows use different banks; of fp8, two of them the same.
  float* sums(int warp, int row, int dim) const {
    return reinterpret_cast<float*>(ring + KeyTiles::spare(warp, stage)) + row * PITCH + (dim ^ row / 2 % 4 * 8);
  }
  float2* md(int warp, int row) const { return maxima + warp * TILE_ROWS + row; }
};
static_assert(TILE_ROWS * SharedStates::PITCH * 4 <= KeyTiles::SPARE_BYTES, "a warp's states fit a stage");

// Operands of queries stay in registers, but for rows so long that outputs need those: they are loaded again for each step.
constexpr bool QUERIES_HELD = HEAD_DIM <= 256 && VALUE_DIM <= 256;

class TensorRows {
  const KernelParams& p_;
  const Variant& variant_;
  const QueryBlock& block_;
  const SpanKeys& span_;
  float unit_;  // what a product of query and key is multiplied by: a logit
  QueryRows queries_;
  unsigned query_[ROW_BLOCKS][QUERIES_HELD ? HEAD_DIM / 16 : 1][2];
  float out_[ROW_BLOCKS][VALUE_DIM / 16][4] = {};
  RowIndex at_[LANE_ROWS];
  Bounds bounds_[LANE_ROWS];  // of the row's keys, where they are an interval
  float max_[LANE_ROWS];      // in units of the logits at hand
  float sum_[LANE_ROWS];      // this lane's share

  using Logits = float[KEY_BLOCKS][ROW_BLOCKS][4];

 public:
  // `queries`: transformed.
  TensorRows(const KernelParams& p, const Variant& variant, const QueryBlock& block, const SpanKeys& span, QueryRows queries)
      : p_(p), variant_(variant), block_(block), span_(span), queries_(queries) {
    unit_ = logit_unit(p, block.kv_head);
    if constexpr (QUERIES_HELD)
#pragma unroll
      for (int n = 0; n < ROW_BLOCKS; ++n)
#pragma unroll
        for (int k = 0; k < HEAD_DIM / 16; ++k) load_query(query_[n][k], n, k);
#pragma unroll
    for (int r = 0; r < LANE_ROWS; ++r) {
      at_[r] = block.at(p, block.existing(row(r)));
      if constexpr (Variant::HAS_BOUNDS) bounds_[r] = variant.kv_bounds(at_[r]);
      max_[r] = FIRST_MAX;
      sum_[r] = 0.f;
    }
  }

  // Takes in the keys of one step.
  void step(const KeyTiles& tiles, int stage, KeyStep step) {
    if constexpr (Variant::HAS_KEY_TRANSFORM)
      rewrite<HookRow<HEAD_DIM>>(tiles.stored_keys(stage), tiles.keys(stage), step, key_scale(p_, block_.kv_head),
              [&](HookRow<HEAD_DIM>& key, const KvIndex& at) { variant_.key_transform(key, at); });
    if constexpr (Variant::HAS_VALUE_TRANSFORM)
      rewrite<HookRow<VALUE_DIM>>(tiles.stored_values(stage), tiles.values(stage), step, value_scale(p_, block_.kv_head),
              [&](HookRow<VALUE_DIM>& value, const KvIndex& at) { variant_.value_transform(value, at); });
    Logits s;
    multiply_keys(s, tiles.keys(stage), step);
    transform(s, step);
    mask(s, step);
    if constexpr (!Variant::PLAIN) follow_maximum(s);
    weigh(s, step);
    multiply_values(s, tiles.values(stage));
  }

  // This warp's state of every row to shared memory.
  void store(const SharedStates& states) {
    float scale = value_unit(p_, block_.kv_head);
    int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
#pragma unroll
    for (int r = 0; r < LANE_ROWS; ++r) {
      float sum = sum_[r];
#pragma unroll
      for (int step = 4; step < 32; step *= 2) sum += __shfl_xor_sync(ALL_LANES, sum, step);
      if (lane < 4) *states.md(warp, row(r)) = {Variant::PLAIN ? 0.f : max_[r] * natural_unit(), sum};
#pragma unroll
      for (int t = 0; t < VALUE_DIM / 16; ++t)
#pragma unroll
        for (int high = 0; high < 2; ++high)
          *states.sums(warp, row(r), output_dim<ValueElem>(t, high)) = out_[r / 2][t][r % 2 + 2 * high] * scale;
    }
  }

 private:
  // This lane's r-th row.
  static int row(int r) { return r / 2 * 8 + threadIdx.x % 4 * 2 + r % 2; }
  // Number in a step of the key of element e of the m-th block of keys.
  static int key_of_lane(int m, int e) { return 16 * m + e / 2 * 8 + threadIdx.x % 32 / 4; }

  // From the units of `max_` to natural units, and to those of the exponent.
  float natural_unit() const { return SCALE_LOGITS ? 1.f : unit_; }
  float exponent_unit() const { return natural_unit() * LOG2_E; }

  // Position of a key of the warp's; see SpanKeys::exists. For all lanes together.
  static int position(KeyStep step, int key) {
    return Variant::HAS_KV_LIST ? __shfl_sync(ALL_LANES, step.position, key) : step.key + KeyTiles::first_key() + key;
  }

  // f(logit, index word, r) for this lane's logits.
  template <class F>
  void for_each(Logits& s, KeyStep step, F f) {
#pragma unroll
    for (int m = 0; m < KEY_BLOCKS; ++m)
#pragma unroll
      for (int e = 0; e < 4; ++e) {
        int kv_pos = position(step, key_of_lane(m, e));
#pragma unroll
        for (int n = 0; n < ROW_BLOCKS; ++n) {
          LogitIndex at;
          static_cast<RowIndex&>(at) = at_[2 * n + e % 2];
          if constexpr (!Variant::HAS_KV_LIST) at.kv_step = 16 * m + e / 2 * 8;
          at.kv_pos = kv_pos;
          at.kv_token = first_key_token(p_, block_.request, at) + kv_pos;
          if constexpr (Variant::HAS_KV_LIST) at.kv_slot = span_.slot(step.key + KeyTiles::first_key() + key_of_lane(m, e));
          f(s[m][n][e], at, 2 * n + e % 2);
        }
      }
  }

  // Rows of this warp's step through a hook, a row over lanes. `scale`: what stored elements are multiplied by.
  template <class Row, class From, class To, class Hook>
  void rewrite(From from, To to, KeyStep step, float scale, Hook hook) {
    constexpr int LANES = Row::LANES_OF_ROW;
    // A hook may be long: it is in the code once.
#pragma unroll 1
    for (int first = 0; first < WARP_KEYS; first += 32 / LANES) {
      int key = first + threadIdx.x % 32 / LANES;
      Row values;
      load_hook_row(values, from, key);
      if (scale != 1.f) values.map([&](int, float x) { return x * scale; });
      hook(values, kv_index(block_.request, block_.kv_head, span_.existing(position(step, key))));
      store_hook_row(to, key, values);
    }
    __syncwarp();
  }

  // The operand of 16 dims of a block of queries.
  void load_query(unsigned (&q)[2], int block, int k) const {
    int row = 8 * block + threadIdx.x % 32 / 4;
#pragma unroll
    for (int high = 0; high < 2; ++high) q[high] = load_shared_4(queries_.at(row, 2 * query_dim<KeyElem>(k / 2, k % 2, high)));
  }

  void multiply_keys(Logits& s, StepKeys<KeyElem> keys, KeyStep step) {
    // Two sums where there is one block of logits: each product waits for the one before.
    constexpr int SUMS = KEY_BLOCKS * ROW_BLOCKS == 1 ? 2 : 1;
    Logits part[SUMS];
    float start = 1.f / unit_;
    if constexpr (BIAS_FIRST)
      for_each(part[0], step, [&](float& x, const LogitIndex& at, int) { x = scaled(variant_.logits_bias(at), start); });
    else
#pragma unroll
      for (auto& of_keys : part[0])
#pragma unroll
        for (auto& of_rows : of_keys)
#pragma unroll
          for (float& x : of_rows) x = 0.f;
    if constexpr (SUMS == 2)
#pragma unroll
      for (float& x : part[1][0][0]) x = 0.f;
#pragma unroll
    for (int k = 0; k < (HEAD_DIM + 16) / 32; ++k) {
      unsigned loaded[ROW_BLOCKS][2][2];
      if constexpr (!QUERIES_HELD)
#pragma unroll
        for (int n = 0; n < ROW_BLOCKS; ++n)
#pragma unroll
          for (int u = 0; u < 2; ++u)
            if (2 * k + u < HEAD_DIM / 16) load_query(loaded[n][u], n, 2 * k + u);
#pragma unroll
      for (int m = 0; m < KEY_BLOCKS; ++m) {
        unsigned a[2][4];
        load_keys<KeyElem>(a, keys, 16 * m, k);
#pragma unroll
        for (int n = 0; n < ROW_BLOCKS; ++n)
#pragma unroll
          for (int u = 0; u < 2; ++u)
            if (2 * k + u < HEAD_DIM / 16) {
              const unsigned(&q)[2] = QUERIES_HELD ? query_[n][2 * k + u] : loaded[n][u];
              mma<LogitElem>(part[u % SUMS][m][n], a[u], q[0], q[1]);
            }
      }
    }
#pragma unroll
    for (int m = 0; m < KEY_BLOCKS; ++m)
#pragma unroll
      for (int n = 0; n < ROW_BLOCKS; ++n)
#pragma unroll
        for (int e = 0; e < 4; ++e) s[m][n][e] = part[0][m][n][e] + (SUMS == 2 ? part[SUMS - 1][m][n][e] : 0.f);
  }

  // Everything before the weights: scale and transform, weights without a running maximum.
  void transform(Logits& s, KeyStep step) {
    if constexpr (SCALE_LOGITS)
      for_each(s, step, [&](float& x, const LogitIndex& at, int) {
        if (Variant::STORES && !span_.exists(at.kv_pos)) return;
        if constexpr (Variant::HAS_LOGITS_TRANSFORM)
          x = variant_.logits_transform(Logit(x, unit_), at);
        else
          x *= unit_;
        if constexpr (Variant::PLAIN) x = variant_.weight(x, 0.f, at);
      });
  }

  void mask(Logits& s, KeyStep step) {
    bool all = (step.full || !Variant::HAS_LOGITS_MASK) &&
               (Variant::HAS_KV_LIST ? step.there : step.key + KeyTiles::first_key() + WARP_KEYS <= span_.end());
    if (all) return;
    for_each(s, step, [&](float& x, const LogitIndex& at, int r) {
      bool counts = span_.exists(at.kv_pos);
      if constexpr (Variant::HAS_BOUNDS)
        counts = counts && in_bounds(bounds_[r], at.kv_pos);
      else if constexpr (Variant::HAS_LOGITS_MASK)
        if (!step.full) counts = counts && variant_.logits_mask(at);
      if (!counts) x = __uint_as_float(MASKED_BITS);
    });
  }

  // Takes the logits into the running maximum, and rescales what was summed relative to the old one. Rarely: lanes
  // first vote whether any of them saw more than a little growth.
  void follow_maximum(const Logits& s) {
    float scale = exponent_unit();
    float most[LANE_ROWS];
    bool grown = false;
#pragma unroll
    for (int r = 0; r < LANE_ROWS; ++r) {
      most[r] = max_[r];
#pragma unroll
      for (int m = 0; m < KEY_BLOCKS; ++m) most[r] = fmaxf(most[r], fmaxf(s[m][r / 2][r % 2], s[m][r / 2][r % 2 + 2]));
      grown |= (most[r] - max_[r]) * scale > RESCALE_SLACK;  // NaN, hence false, while a row has seen no key
    }
    if (!__any_sync(ALL_LANES, grown)) return;
#pragma unroll
    for (int r = 0; r < LANE_ROWS; ++r) {
#pragma unroll
      for (int step = 4; step < 32; step *= 2) most[r] = fmaxf(most[r], __shfl_xor_sync(ALL_LANES, most[r], step));
      float factor = most[r] == max_[r] ? 1.f : exp2_approx((max_[r] - most[r]) * scale);
      max_[r] = most[r];
      sum_[r] *= factor;
#pragma unroll
      for (int t = 0; t < VALUE_DIM / 16; ++t) {
        out_[r / 2][t][r % 2] *= factor;
        out_[r / 2][t][r % 2 + 2] *= factor;
      }
    }
  }

  // Logits become weights in place, and enter the rows' sums.
  void weigh(Logits& s, KeyStep step) {
    float scale = exponent_unit();
    float shift[LANE_ROWS];
#pragma unroll
    for (int r = 0; r < LANE_ROWS; ++r) shift[r] = max_[r] == NO_LOGIT ? 0.f : MAX_SCALED ? max_[r] : max_[r] * scale;
    if constexpr (MAX_SCALED) {
      for_each(s, step, [&](float& x, const LogitIndex& at, int r) {
        x = take_weight(variant_, x, shift[r], at, __float_as_uint(x) != MASKED_BITS, sum_[r]);
      });
    } else {
#pragma unroll
      for (int m = 0; m < KEY_BLOCKS; ++m)
#pragma unroll
        for (int n = 0; n < ROW_BLOCKS; ++n)
#pragma unroll
          for (int e = 0; e < 4; ++e) {
            float& x = s[m][n][e];
            if constexpr (!Variant::PLAIN) x = exp2_approx(x * scale - shift[2 * n + e % 2]);
            sum_[2 * n + e % 2] += x;
            if constexpr (Variant::PLAIN && SAME<WeightElem, f16>) x = saturate_f16(x);
          }
    }
  }

  void multiply_values(const Logits& s, StepValues<ValueElem> values) {
#pragma unroll
    for (int m = 0; m < KEY_BLOCKS; ++m) {
      unsigned weights[ROW_BLOCKS][2];
#pragma unroll
      for (int n = 0; n < ROW_BLOCKS; ++n)
#pragma unroll
        for (int high = 0; high < 2; ++high)
          weights[n][high] = transpose_matrix(pack2<WeightElem>(s[m][n][2 * high], s[m][n][2 * high + 1]));
#pragma unroll
      for (int k = 0; k < (VALUE_DIM + 16) / 32; ++k) {
        unsigned a[2][4];
        load_values<ValueElem>(a, values, 16 * m, k);
#pragma unroll
        for (int n = 0; n < ROW_BLOCKS; ++n)
#pragma unroll
          for (int u = 0; u < 2; ++u)
            if (2 * k + u < VALUE_DIM / 16) mma<WeightElem>(out_[n][2 * k + u], a[u], weights[n][0], weights[n][1]);
      }
    }
  }
};
