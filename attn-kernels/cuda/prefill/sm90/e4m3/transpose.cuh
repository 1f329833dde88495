// Transposes values of e4m3 in shared memory: the producer warps that load V bring a tile as it is stored, and write it
// as gemm_pv reads it (`products.cuh`). So no pass over V runs before, and no copy of V is in global memory. The next
// tile is in flight meanwhile.
//
// ldmatrix gives a lane the elements of two neighbouring dims and two neighbouring keys: those of a word of both dims'
// rows, with another two keys that are eight further on. Four permutations of bytes transpose 16 keys of 32 dims.
#pragma once
#include "prefill/sm90/tma_load.cuh"
#include "prefill/sm90/smem_tiles.cuh"

class ValueTransposer {
  static constexpr int WARPS_OF_V = TMA_WARPS;
  static constexpr int DIMS = HEAD_DIM_VO / WARPS_OF_V;  // of a warp
  static_assert(HEAD_DIM_VO == 128 && TILE_KEYS == 128 && DIMS % 32 == 0, "a row of 128 bytes, of keys and of dims");
  int keys_ = 0;  // of the tile in flight

  // Zeroes this warp's dims of keys from `first` on, which may be any bits: 0 * NaN is not 0.
  static void zero_keys(SmemRawV from, int first) {
    constexpr int CHUNKS = DIMS / 16;
    for (int i = threadIdx.x % 32; i < (TILE_KEYS - first) * CHUNKS; i += 32)
      store_shared_16(from.at(first + i / CHUNKS, CHUNKS * tma_warp() + i % CHUNKS), make_uint4(0, 0, 0, 0));
    fence_view_async_shared();  // before TMA writes the next tile there
    __syncwarp();
  }

  static void transpose(SmemRawV from, SmemV to) {
    int lane = threadIdx.x % 32, matrix = lane / 8, row = lane % 8;
    // Of 16 keys the first or the last eight, and of 32 dims the first or the last 16.
    unsigned load = from.at(8 * (matrix % 2) + row, DIMS / 16 * tma_warp() + matrix / 2);
    // Rows of a matrix are dims of the same parity, but the last four of the other one: eight of one parity would share
    // four groups of banks.
    unsigned store = to.at(DIMS * tma_warp() + 16 * (matrix / 2) + 2 * row + (matrix % 2 ^ row / 4), 0);
    unsigned first = lane < 16 ? 0x6420 : 0x7531, second = lane < 16 ? 0x7531 : 0x6420;
#pragma unroll
    for (int dims = 0; dims < DIMS / 32; ++dims)
#pragma unroll 4
      for (int sixteen = 0; sixteen < TILE_KEYS / 16; ++sixteen) {
        unsigned x[4];
        ldmatrix_x4_trans(x, from.advance_chunks(load, 2 * dims) + sixteen * 16 * 128);
        unsigned words[4] = {__byte_perm(x[0], x[1], first), __byte_perm(x[0], x[1], second),
                             __byte_perm(x[2], x[3], first), __byte_perm(x[2], x[3], second)};
        stmatrix_x4((store ^ sixteen << 4) + dims * 32 * 128, words);
      }
  }

 public:
  // Threads that arrive at the full barrier of V for a tile: one of each warp.
  static constexpr int ARRIVALS = WARPS_OF_V;

  // Transposes tile `n`, once it has arrived and its stage is free.
  void finish(const SmemTiles& tiles, const Pipeline& pipeline, int n) const {
    PipelineState state(n);
    RawState raw(n);
    __syncwarp();
    mbarrier_wait(tiles.raw_full(raw.stage), raw.phase);
    mbarrier_wait(pipeline.v_empty(state.stage), state.phase ^ 1);
    if (keys_ > 0) {
      if (keys_ < TILE_KEYS) zero_keys(tiles.raw_stage(raw.stage), keys_);
      transpose(tiles.raw_stage(raw.stage), tiles.v_stage(state.stage));
      fence_view_async_shared();
    }
    __syncwarp();
    if (threadIdx.x % 32 == 0) mbarrier_arrive(pipeline.v_full(state.stage));
  }
  // Starts loading tile `n`, and transposes the one before it. `key`: its first one, or -1 without keys.
  template <class Loader>
  void step(const SmemTiles& tiles, const Pipeline& pipeline, const Loader& loader, int n, int key, int end) {
    RawState raw(n);
    __syncwarp();  // after what single lanes do
    named_barrier_sync(VALUES_BARRIER, 32 * WARPS_OF_V);  // all have transposed tile n - 2
    unsigned barrier = tiles.raw_full(raw.stage);
    if (is_leader_of(ProducerWarp::LOAD_V)) mbarrier_arrive_expect_tx(barrier, key >= 0 ? loader.BYTES : 0);
    if (key >= 0) loader.load({tiles.raw_stage(raw.stage).base}, barrier, end, key, {});
    if (n > 0) finish(tiles, pipeline, n - 1);
    keys_ = key >= 0 ? min(end - key, TILE_KEYS) : 0;
  }
};
