// The preprocessing kernel of 8-bit products, attn_kv_preprocess: writes V of e4m3 transposed, in tiles of TILE_KEYS
// keys: a row is a dim, and has the keys of a tile. A request begins with a tile of its own, `transposed_base` of its
// first key: requests share no tile, so that no NaN of a neighbour meets a P of 0. Keys past a request's last one are
// 0.
//
// Within each 16 keys of a row, position 4 t + e holds key 8 (e / 2) + 2 t + e % 2 for t and e from 0 to 3: the order
// in which a lane's accumulators of S become an A operand.
//
// Grid (tiles, kv_heads), KV_PREPROCESS_THREADS threads.
#pragma once
#include "preprocess/transposed_base.cuh"
#include "abi/launch_params.cuh"
#include "arch/ptx.cuh"

constexpr int KV_PREPROCESS_THREADS = 128;
constexpr int KV_PREPROCESS_KEYS = TILE_KEYS;
constexpr int KV_PREPROCESS_HEADS = 1;

// A tile of V in shared memory, a row for each key. The chunks of 16 bytes are swizzled by row / 16, so that lanes that
// read rows 16 apart use different banks.
struct SwizzledValues {
  unsigned base;

  unsigned at(int row, int chunk) const { return base + row * HEAD_DIM_VO + ((chunk ^ row / 16) % 8 << 4); }
};

// Four keys' four elements each, transposed: word i has element i of the four keys.
inline void transpose_4x4(unsigned (&to)[4], const unsigned (&keys)[4]) {
  unsigned low = __byte_perm(keys[0], keys[1], 0x5140), high = __byte_perm(keys[0], keys[1], 0x7362);
  unsigned other_low = __byte_perm(keys[2], keys[3], 0x5140), other_high = __byte_perm(keys[2], keys[3], 0x7362);
  to[0] = __byte_perm(low, other_low, 0x5410);
  to[1] = __byte_perm(low, other_low, 0x7632);
  to[2] = __byte_perm(high, other_high, 0x5410);
  to[3] = __byte_perm(high, other_high, 0x7632);
}

// The request that a tile belongs to: the last one that begins at it or before.
inline int request_of_tile(const KernelParams& p, int tile) {
  int first = 0, last = p.batch - 1;
  while (first < last) {
    int middle = (first + last + 1) / 2;
    if (p.kv_indptr[middle] / TILE_KEYS + middle <= tile)
      first = middle;
    else
      last = middle - 1;
  }
  return first;
}

extern "C" __global__ void __launch_bounds__(KV_PREPROCESS_THREADS, 8)
    attn_kv_preprocess(const __grid_constant__ LaunchParams p, const __grid_constant__ Variant variant) {
  static_assert(TILE_KEYS == 128 && HEAD_DIM_VO == 128, "eight lanes load a row, and eight lanes store one");
  __shared__ uint4 memory[TILE_KEYS * HEAD_DIM_VO / 16];
  SwizzledValues values = {shared_address(memory)};
  int tile = blockIdx.x, kv_head = blockIdx.y;
  if (p.batch == 0) return;
  Request request = load_request(p, request_of_tile(p, tile));
  int first_key = tile * TILE_KEYS - transposed_base(request);
  if (first_key >= request.kv_len) return;  // between requests, or beyond them: nothing reads it

  constexpr int ROWS_PER_PASS = KV_PREPROCESS_THREADS / 8;
  int chunk = threadIdx.x % 8;
  const unsigned char* head = static_cast<const unsigned char*>(p.v.data) + kv_head * p.v.head + 16 * chunk;
#pragma unroll
  for (int pass = 0; pass < TILE_KEYS / ROWS_PER_PASS; ++pass) {
    int row = pass * ROWS_PER_PASS + threadIdx.x / 8;
    uint4 loaded = make_uint4(0, 0, 0, 0);
    if (first_key + row < request.kv_len) {
      const int* pages = KV_PAGED ? page_table_row(p, request) : nullptr;
      KvLocation location = locate_key<KV_PAGED>(p, request, pages, first_key + row);
      loaded = *reinterpret_cast<const uint4*>(head + key_offset<KV_PAGED>(p.v, location));
    }
    store_shared_16(values.at(row, chunk), loaded);
  }
  __syncthreads();

  unsigned char* to = static_cast<unsigned char*>(const_cast<void*>(static_cast<const void*>(p.v_pre.data))) +
                      2 * (kv_head * p.v_pre.head + static_cast<long long>(tile) * HEAD_DIM_VO * p.v_pre.token);
  // a thread takes 16 keys of four dims
  int sixteen = threadIdx.x % 8;
#pragma unroll
  for (int pass = 0; pass < HEAD_DIM_VO / 4 / ROWS_PER_PASS; ++pass) {
    int word = pass * ROWS_PER_PASS + threadIdx.x / 8;
    unsigned of_dim[4][4];  // [dim][four positions]
#pragma unroll
    for (int t = 0; t < 4; ++t) {
      unsigned keys[4], transposed[4];
#pragma unroll
      for (int e = 0; e < 4; ++e)
        keys[e] = load_shared_4(values.at(16 * sixteen + 8 * (e / 2) + 2 * t + e % 2, word / 4) + word % 4 * 4);
      transpose_4x4(transposed, keys);
#pragma unroll
      for (int i = 0; i < 4; ++i) of_dim[i][t] = transposed[i];
    }
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      uint4 positions = make_uint4(of_dim[i][0], of_dim[i][1], of_dim[i][2], of_dim[i][3]);
      *reinterpret_cast<uint4*>(to + 2 * (4 * word + i) * p.v_pre.token + 16 * sixteen) = positions;
    }
  }
}
