// attn_prefill on Hopper: tiles of packed query rows, one after the other, by a CTA a multiprocessor: some warpgroups multiply, one copies, and no CTA waits for
// another's tile. Grid (CTAs, 1), of which each takes work until there is none; CTA_THREADS threads, SMEM_BYTES of dynamic shared memory.
#pragma once
constexpr int MULTIPLY_BARRIER = 1, COPY_BARRIER = 2, TURN_BARRIER = 3, WARPGROUP_BARRIER = 6;  // the last two: one for each warpgroup

#include "prefill/sm90/mainloop.cuh"

constexpr int CTA_THREADS = THREADS + 32 * COPY_WARPS;
// QUERY_STAGES tiles of queries, then STAGES of keys, then of values, then output rows; from a multiple of 1024 on, wherever the dynamic shared memory begins.
constexpr int TILES_ALIGNMENT = 1024;
constexpr int SMEM_BYTES = TILES_ALIGNMENT + QUERY_STAGES * QueryTileRows::BYTES + STAGES * (KeyTile::BYTES + ValueTile::BYTES) + OUTPUT_BYTES;

// Registers, in eights: a thread that copies needs few, and more where it looks up pages; one that multiplies needs many, and all there are where it rewrites queries, or
// the wait for values moves up in its loop. There are as many as the launch gave, the same to every thread, of 64 K.
constexpr int LAUNCH_REGISTERS = (64 * 1024 / CTA_THREADS) / 8 * 8;
constexpr bool MORE_TO_COPY = KEYS_IN_POOL && !QUERIES_REWRITTEN;
constexpr int COPY_REGISTERS = WARPGROUPS > 2 ? 32 : MORE_TO_COPY ? 72 : 56, MULTIPLY_REGISTERS = WARPGROUPS > 2 ? 160 : MORE_TO_COPY ? 216 : 224;
static_assert(MULTIPLY_REGISTERS * THREADS + COPY_REGISTERS * 32 * COPY_WARPS <= LAUNCH_REGISTERS * CTA_THREADS, "or a warpgroup waits forever");
static_assert(COPY_WARPS == 4 && (WARPGROUPS == 2 || WARPGROUPS == 3), "registers are dealt to three or four warpgroups");
static_assert(SMEM_BYTES + sizeof(RingState) <= 227 * 1024, "the largest shared memory there is");
static_assert(STAGES > 1, "values of a tile come after the keys of the next one");
static_assert(SAME<QoElem, KvElem> || IS_FP8<KvElem>, "queries meet keys as they are, unless the pass rewrote them");
static_assert(KEY_PRE_PASS == (Variant::HAS_KEY_TRANSFORM || IS_FP8<KvElem>), "keys come transformed, and in 16 bits");
static_assert(VALUE_PRE_PASS == (Variant::HAS_VALUE_TRANSFORM || IS_FP8<KvElem>), "values come transformed, and in 16 bits");
static_assert(!Variant::HAS_KV_LIST && !VALUES_OF_KEYS, "not here");
static_assert(OUTPUT_BYTES == 0 || OUTPUT_BYTES == TILE_ROWS * STAGED_ROW_BYTES, "output rows have a place");
static_assert(QUERY_STAGES == 1 || OUTPUTS_APART, "output rows take the place of the only queries");
static_assert(TILE_ROWS * STAGED_ROW_BYTES <= QueryTileRows::BYTES || OUTPUTS_APART, "or take that of queries");

extern "C" __global__ void __launch_bounds__(CTA_THREADS, 1) attn_prefill(const __grid_constant__ KernelParams p, const __grid_constant__ Variant variant,
                                                                          const __grid_constant__ WarpgroupParams w) {
  extern __shared__ unsigned char shared_memory[];
  __shared__ RingState state;
  CtaTiles tiles;
  tiles.queries.base = (shared_address(shared_memory) + TILES_ALIGNMENT - 1) / TILES_ALIGNMENT * TILES_ALIGNMENT;
  tiles.keys.base = tiles.queries.base + QUERY_STAGES * QueryTileRows::BYTES;
  tiles.values.base = tiles.keys.base + STAGES * KeyTile::BYTES;
  tiles.outputs = OUTPUTS_STAGED ? tiles.values.base + STAGES * ValueTile::BYTES : tiles.queries.base;
  Ring ring(state);
  bool boxes = in_boxes(w);
  if (threadIdx.x == 0) {
    int queries = w.query_boxes ? 1 : 32 * COPY_WARPS;
    if (boxes)
      ring.init(KeyFeed<true>::ARRIVALS, ValueFeed<true>::ARRIVALS, queries);
    else
      ring.init(KeyFeed<false>::ARRIVALS, ValueFeed<false>::ARRIVALS, queries);
  }
  __syncthreads();
  // of a warp, and so that the assembler knows
  if (__shfl_sync(ALL_LANES, static_cast<int>(threadIdx.x) / THREADS, 0)) {
    release_registers<COPY_REGISTERS>();
    if (boxes)
      copy_all<true>(p, variant, w, tiles, ring);
    else if constexpr (KEYS_IN_POOL)  // what is not looked up is always in boxes
      copy_all<false>(p, variant, w, tiles, ring);
  } else {
    claim_registers<MULTIPLY_REGISTERS>();
    multiply_all(p, variant, w, tiles, ring);
  }
}
