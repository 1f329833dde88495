// The two products of attention on CUDA cores, for the rows and keys of one warp: S = Q K^T and O += P V, in f32.
//
// S: lanes split a key's dims. A team of lanes loads the same four keys, each lane another part of their dims, and
// multiplies them with every row. The lanes then add up their shares, so that each is left with the scores of one key.
// O: lanes split a value's dims, and take the probabilities of the keys from shared memory.
#pragma once
#include "cuda_cores/smem_q.cuh"
#include "decode/kv_pipeline.cuh"
#include "memory/vector.cuh"

constexpr int TEAM_KEYS = 4;
constexpr int TEAM_LANES = 32 * TEAM_KEYS / WARP_KEYS;
static_assert(WARP_KEYS >= TEAM_KEYS && TEAM_LANES >= 4, "a warp has one team or more, and a lane no two keys");

// Neighbouring lanes that hold the scores of the same key.
constexpr int LANES_PER_KEY = 32 / WARP_KEYS;
// The key of this lane's scores within the warp's step.
inline int key_of_lane() { return threadIdx.x % 32 / LANES_PER_KEY; }

// Elements of a key that a lane loads at once.
constexpr int KEY_ELEMS = sizeof(KeyElem) == 4 ? 4 : 8;

// Elements of a value that a lane loads at once: so many that a warp's lanes hold the row, if they can.
constexpr int value_elems() {
  int elems = 2;
  while (elems < (sizeof(ValueElem) == 4 ? 4 : 8) && 32 * elems < HEAD_DIM_VO) elems *= 2;
  return elems;
}
constexpr int VALUE_ELEMS = value_elems();
constexpr int VALUE_PASSES = (HEAD_DIM_VO + 32 * VALUE_ELEMS - 1) / (32 * VALUE_ELEMS);
constexpr int LANE_DIMS = VALUE_PASSES * VALUE_ELEMS;  // dims of O of a lane

// The first dim of O that this lane holds in a pass, and whether the row has it.
inline int output_dim(int pass) { return (32 * pass + threadIdx.x % 32) * VALUE_ELEMS; }
inline bool has_output(int pass) {
  return 32 * (pass + 1) * VALUE_ELEMS <= HEAD_DIM_VO || output_dim(pass) < HEAD_DIM_VO;
}

// Adds up the shares of a team's lanes in the scores of its four keys. Each lane keeps one of the keys, so that the
// exchange takes three shuffles and not eight.
inline float sum_over_team(const float (&share)[TEAM_KEYS]) {
  bool upper = threadIdx.x & TEAM_LANES / 2, second = threadIdx.x & TEAM_LANES / 4;
  float pair[2];
#pragma unroll
  for (int i = 0; i < 2; ++i)
    pair[i] =
        (upper ? share[2 + i] : share[i]) + __shfl_xor_sync(ALL_LANES, upper ? share[i] : share[2 + i], TEAM_LANES / 2);
  float sum = (second ? pair[1] : pair[0]) + __shfl_xor_sync(ALL_LANES, second ? pair[0] : pair[1], TEAM_LANES / 4);
  return sum_of_neighbours<TEAM_LANES / 4>(sum);
}

// S = Q K^T for the key of this lane. `first_row`: the warp's first row in the Q tile.
inline void multiply_q_k(float (&s)[WARP_ROWS], CudaCoreSmemQ smem_q, int first_row, WarpSmemK keys) {
  constexpr int CHUNKS = HEAD_DIM_QK / KEY_ELEMS;
  int lane = threadIdx.x % TEAM_LANES, first_key = threadIdx.x % 32 / TEAM_LANES * TEAM_KEYS;
  float shares[WARP_ROWS][TEAM_KEYS] = {};
#pragma unroll 4
  for (int first = 0; first < CHUNKS; first += TEAM_LANES) {
    int dim = (first + lane) * KEY_ELEMS;
    if (CHUNKS % TEAM_LANES != 0 && dim >= HEAD_DIM_QK) break;
    float key[TEAM_KEYS][KEY_ELEMS];
#pragma unroll
    for (int j = 0; j < TEAM_KEYS; ++j)
      load_shared_f32<KeyElem>(key[j], keys.at(first_key + j, dim * static_cast<int>(sizeof(KeyElem))));
#pragma unroll
    for (int r = 0; r < WARP_ROWS; ++r)
#pragma unroll
      for (int half = 0; half < KEY_ELEMS; half += 4) {
        float q[4];
        load_shared_f32<float>(q, smem_q.q(first_row + r, dim + half));
#pragma unroll
        for (int j = 0; j < TEAM_KEYS; ++j)
#pragma unroll
          for (int i = 0; i < 4; ++i) shares[r][j] = fmaf(q[i], key[j][half + i], shares[r][j]);
      }
  }
#pragma unroll
  for (int r = 0; r < WARP_ROWS; ++r) s[r] = sum_over_team(shares[r]);
}

// O += P V.
inline void multiply_p_v(float (&o)[WARP_ROWS][LANE_DIMS], CudaCoreSmemQ smem_q, WarpSmemV values) {
#pragma unroll 2
  for (int key = 0; key < WARP_KEYS; key += 4)
#pragma unroll
    for (int pass = 0; pass < VALUE_PASSES; ++pass) {
      if (!has_output(pass)) break;
      float value[4][VALUE_ELEMS];
#pragma unroll
      for (int j = 0; j < 4; ++j)
        load_shared_f32<ValueElem>(value[j],
                                   values.at(key + j, output_dim(pass) * static_cast<int>(sizeof(ValueElem))));
#pragma unroll
      for (int r = 0; r < WARP_ROWS; ++r) {
        float prob[4];
        load_shared_f32<float>(prob, smem_q.prob(r, key));
#pragma unroll
        for (int i = 0; i < VALUE_ELEMS; ++i)
#pragma unroll
          for (int j = 0; j < 4; ++j)
            o[r][pass * VALUE_ELEMS + i] = fmaf(prob[j], value[j][i], o[r][pass * VALUE_ELEMS + i]);
      }
    }
}
