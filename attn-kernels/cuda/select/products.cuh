// Products of 32 keys with the index queries of a token. A warp has the keys in registers, and the CTA the queries in
// shared memory.
#pragma once
#include "arch/element.cuh"
#include "arch/reduce.cuh"
#if INDEX_MMA
#include "arch/ptx.cuh"
#endif
#include "select/visible.cuh"

constexpr int KEYS = 32;
// Rows of queries, in groups of eight, are 64 bytes apart beyond their length: eight lanes read all banks.
constexpr int HEAD_GROUPS = (INDEX_HEADS + 7) / 8;
constexpr int Q_PITCH = INDEX_DIM + 32;
// Elements of a lane are eight neighbours of each 32, in the first and the second operand alike: a product does not
// depend on the order of its terms.
constexpr int CHUNKS = INDEX_DIM / 32;
static_assert(sizeof(IndexElem) == 2, "elements of 16 bits");

struct SharedQueries {
  IndexElem heads[HEAD_GROUPS * 8 * Q_PITCH];
  float weights[HEAD_GROUPS * 8];
};

// Eight elements.
inline uint4 load8(const IndexElem* from, bool wide) {
  if (wide) return *reinterpret_cast<const uint4*>(from);
  auto pair = [&](int i) { return from[i].bits | static_cast<unsigned>(from[i + 1].bits) << 16; };
  return {pair(0), pair(2), pair(4), pair(6)};
}

// Fills shared memory with the queries of a token; heads that are none are 0.
inline void load_queries(const IndexScoresParams& p, int token, SharedQueries& rows) {
  const IndexElem* q = static_cast<const IndexElem*>(p.q) + token * p.q_token;
  constexpr int OF_HEAD = INDEX_DIM / 8;
  for (int i = threadIdx.x; i < HEAD_GROUPS * 8 * OF_HEAD; i += OP_THREADS) {
    int head = i / OF_HEAD, at = i % OF_HEAD * 8;
    uint4 words = {0, 0, 0, 0};
    if (head < INDEX_HEADS) words = load8(q + head * p.q_head + at, p.q_wide);
    *reinterpret_cast<uint4*>(rows.heads + head * Q_PITCH + at) = words;
  }
  if (p.weights)
    for (int head = threadIdx.x; head < HEAD_GROUPS * 8; head += OP_THREADS)
      rows.weights[head] = head < INDEX_HEADS ? p.weights[token * p.weights_token + head] : 0.f;
}

#if INDEX_MMA
// On tensor cores. A lane gets, for each group of eight heads, products of four keys with two heads.
struct Products {
  uint4 key[2][2][CHUNKS];

  // `offset`: of the key of this lane; -1: none.
  void load(const IndexScoresParams& p, long long offset) {
    const IndexElem* keys = static_cast<const IndexElem*>(p.keys.part[0].pool.data);
    int lane = threadIdx.x % 32;
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      long long at = __shfl_sync(0xffffffffu, offset, i * 8 + lane / 4);
#pragma unroll
      for (int chunk = 0; chunk < CHUNKS; ++chunk) {
        uint4 words = {0, 0, 0, 0};
        if (at >= 0) words = load8(keys + at + chunk * 32 + lane % 4 * 8, p.keys_wide);
        key[i / 2][i % 2][chunk] = words;
      }
    }
  }

  // Calls `take(head, key, product)`: the number of the head, which may be none, and of the key among the 32, and of
  // that key among the four of a lane.
  template <class Take>
  void each(const SharedQueries& rows, const Take& take) const {
    int lane = threadIdx.x % 32;
#pragma unroll 1
    for (int group = 0; group < HEAD_GROUPS; ++group) {
      float c[2][4] = {};
      const IndexElem* q = rows.heads + (group * 8 + lane / 4) * Q_PITCH + lane % 4 * 8;
#pragma unroll
      for (int chunk = 0; chunk < CHUNKS; ++chunk) {
        uint4 b = *reinterpret_cast<const uint4*>(q + chunk * 32);
#pragma unroll
        for (int tile = 0; tile < 2; ++tile) {
          uint4 low = key[tile][0][chunk], high = key[tile][1][chunk];
          unsigned a[4] = {low.x, high.x, low.y, high.y}, next[4] = {low.z, high.z, low.w, high.w};
          mma<IndexElem>(c[tile], a, b.x, b.y);
          mma<IndexElem>(c[tile], next, b.z, b.w);
        }
      }
#pragma unroll
      for (int i = 0; i < 8; ++i) take(group * 8 + lane % 4 * 2 + i % 2, i / 2, c[i / 4][i % 4]);
    }
  }
};
// Keys of a lane; its number `i` is key i * 8 + lane / 4 of the 32.
constexpr int LANE_KEYS = 4;
// Lanes that share keys, and those that share heads, differ in these bits.
constexpr int HEAD_LANES = 4;
#else
// On CUDA cores. A lane gets the products of its own key with every head.
struct Products {
  uint4 key[INDEX_DIM / 8];

  void load(const IndexScoresParams& p, long long offset) {
    const IndexElem* keys = static_cast<const IndexElem*>(p.keys.part[0].pool.data);
#pragma unroll
    for (int i = 0; i < INDEX_DIM / 8; ++i) {
      key[i] = {0, 0, 0, 0};
      if (offset >= 0) key[i] = load8(keys + offset + i * 8, p.keys_wide);
    }
  }

  static float product(unsigned a, unsigned b, float sum) {
    float2 x = unpack2<IndexElem>(a), y = unpack2<IndexElem>(b);
    return fmaf(x.y, y.y, fmaf(x.x, y.x, sum));
  }

  template <class Take>
  void each(const SharedQueries& rows, const Take& take) const {
#pragma unroll 1
    for (int head = 0; head < INDEX_HEADS; ++head) {
      float sum = 0.f;
#pragma unroll
      for (int i = 0; i < INDEX_DIM / 8; ++i) {
        uint4 q = *reinterpret_cast<const uint4*>(rows.heads + head * Q_PITCH + i * 8);
        sum = product(key[i].x, q.x, sum), sum = product(key[i].y, q.y, sum);
        sum = product(key[i].z, q.z, sum), sum = product(key[i].w, q.w, sum);
      }
      take(head, 0, sum);
    }
  }
};
constexpr int LANE_KEYS = 1;
constexpr int HEAD_LANES = 1;
#endif

// Which of the 32 keys a lane's key is.
inline int key_of_lane(int i) { return LANE_KEYS == 1 ? threadIdx.x % 32 : i * 8 + threadIdx.x % 32 / 4; }
