// attn_prefill: tensor cores, a tile of packed query rows per CTA against a span of keys, FlashAttention-2 style.
// Grid (items, kv_heads), 32 * WARPS threads, SMEM_BYTES of dynamic shared memory.
#pragma once
#include "cursor.cuh"
#include "epilogue.cuh"
#include "queries.cuh"

// The query tile, then STAGES key tiles, then STAGES value tiles.
constexpr int SMEM_BYTES = (TILE_ROWS + 2 * STAGES * TILE_KEYS) * HEAD_DIM * 2;
// Two CTAs of four warps share an SM and hide each other's softmax and latencies.
constexpr int CTAS_PER_SM = WARPS <= 4 ? 2 : 1;

static_assert(SMEM_BYTES <= 227 * 1024, "the largest shared memory there is");
static_assert(STAGES >= 2, "a tile is copied while the one before it is in use");
static_assert(SAME<QoElem, KvElem>, "queries meet keys as they are, unless the key pass rewrote them");
static_assert(KEY_PRE_PASS || !Variant::HAS_KEY_TRANSFORM, "keys come transformed");
static_assert(!Variant::HAS_VALUE_TRANSFORM, "not in this kernel");
static_assert(Variant::PLAIN || !Variant::HAS_WEIGHT, "weights of one's own have no running maximum");

extern "C" __global__ void __launch_bounds__(THREADS, CTAS_PER_SM)
    attn_prefill(const __grid_constant__ KernelParams p, const __grid_constant__ Variant variant) {
  extern __shared__ __align__(128) unsigned char shared_memory[];
  SharedTile<TILE_ROWS> queries = {shared_address(shared_memory)};
  SharedTile<TILE_KEYS> keys = {queries.base + queries.BYTES};
  SharedTile<TILE_KEYS> values = {keys.base + STAGES * keys.BYTES};

  CtaPlace place = cta_place();
  WorkItem item = p.items[place.item];
  QueryTile tile = query_tile(p, item, place.kv_head);
  if (tile.first_row > tile.last_row) return;

  // With a key pre-pass the keys are ragged whatever the values are.
  KeyTileCopy<KV_PAGED && !KEY_PRE_PASS> key_copy(KEY_PRE_PASS ? p.k_pre : p.k, tile.request, tile.kv_head);
  KeyTileCopy<KV_PAGED> value_copy(p.v, tile.request, tile.kv_head);
  KeyPlace row_place = {};

  copy_queries(queries, p, tile);
  copy_async_commit();
  TileCursor cursor(p, tile, item);
  bool full;
  int key = cursor.next(variant, full);
  if (key >= 0) {
    if constexpr (KV_PAGED) row_place = find_row(p, tile.request, key, item.kv_end);
    key_copy.copy(keys, key, item.kv_end, row_place);
    value_copy.copy(values, key, item.kv_end, row_place);
  }
  copy_async_commit();
  if constexpr (QUERIES_REWRITTEN) {
    copy_async_wait<1>();
    transform_queries(queries, p, variant, tile);
  }

  OperandLanes lanes;
  Outputs o;
  clear(o);
  RowStates rows;
  float scale = exponent_unit(p);
  int stage = 0;
#pragma unroll 1
  while (key >= 0) {
    bool next_full;
    int next = cursor.next(variant, next_full);
    // This tile has arrived, and every warp is done with the one before it, whose place the next one takes.
    copy_async_wait<0>();
    __syncthreads();
    int next_stage = (stage + 1) % STAGES;
    if constexpr (KV_PAGED)
      if (next >= 0) row_place = find_row(p, tile.request, next, item.kv_end);

    Logits s;
    multiply_queries_keys(s, queries, {keys.base + stage * keys.BYTES}, lanes);
    if (next >= 0) {  // by now the page look-up has returned
      key_copy.copy({keys.base + next_stage * keys.BYTES}, next, item.kv_end, row_place);
      value_copy.copy({values.base + next_stage * values.BYTES}, next, item.kv_end, row_place);
      copy_async_commit();
    }
    transform_logits(s, p, variant, tile, key);
    if (!full) mask_logits(s, p, variant, tile, key, item.kv_end);
    if constexpr (!Variant::PLAIN) follow_maximum(s, o, rows, scale);
    RowShifts shift(rows, scale);
    // By 16 keys, so that the weights of the next ones are computed while the tensor cores are at these.
#pragma unroll
    for (int n = 0; n < TILE_KEYS / 16; ++n) {
      Weights w;
      weigh(w, s, rows, shift, scale, n);
      multiply_weights_values(o, w, {values.base + stage * values.BYTES}, n, lanes);
    }

    key = next;
    full = next_full;
    stage = next_stage;
  }

  copy_async_wait<0>();
  __syncthreads();
  write_rows(p, variant, o, rows, tile, item.partial, queries);
}
