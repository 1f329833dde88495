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

static_assert(STAGES >= 2, "a tile is copied while the one before it is in use");

// CTAs start in the order of their linear index, and the host sorts items by length, longest first. Going through the items
// once a head would end with one head's longest items alone on the chip; so HEADS_AT_ONCE heads take turns within an item,
// few enough that their keys and values stay in the L2 cache.
constexpr int HEADS_AT_ONCE = 4;

struct CtaPlace {
  int item;
  int kv_head;
};

inline CtaPlace cta_place() {
  const unsigned linear = blockIdx.y * gridDim.x + blockIdx.x;
  const unsigned first_head = linear / (HEADS_AT_ONCE * gridDim.x) * HEADS_AT_ONCE;
  const unsigned within = linear - first_head * gridDim.x;
  const unsigned heads = min(HEADS_AT_ONCE, static_cast<int>(gridDim.y - first_head));
  return {static_cast<int>(within / heads), static_cast<int>(first_head + within % heads)};
}

extern "C" __global__ void __launch_bounds__(THREADS, CTAS_PER_SM)
    attn_prefill(const __grid_constant__ KernelParams p, const __grid_constant__ Variant variant) {
  extern __shared__ __align__(128) unsigned char shared_memory[];
  const SharedTile<TILE_ROWS> queries = {shared_address(shared_memory)};
  SharedTile<TILE_KEYS> keys = {queries.base + queries.BYTES};
  SharedTile<TILE_KEYS> values = {keys.base + STAGES * keys.BYTES};

  const CtaPlace place = cta_place();
  const WorkItem item = p.items[place.item];
  const int kv_head = place.kv_head;
  const Request request = load_request(p, item.request);
  const int first_row = item.qo_tile * TILE_ROWS;
  const int last_row = min(first_row + TILE_ROWS, packed_rows(p, request)) - 1;
  if (first_row > last_row) return;

  // With a key pre-pass the keys are ragged whatever the values are.
  constexpr bool KEYS_PAGED = KV_PAGED && !KEY_PRE_PASS;
  const Strided& key_tensor = KEY_PRE_PASS ? p.k_pre : p.k;
  KeyTileCopy<KEYS_PAGED> key_copy(p, key_tensor, request, kv_head);
  KeyTileCopy<KV_PAGED> value_copy(p, p.v, request, kv_head);

  copy_queries(queries, p, request, kv_head, first_row, last_row);
  copy_async_commit();
  TileCursor cursor(p, request, item, first_row, last_row);
  bool full;
  int key = cursor.next(variant, full);
  if (key >= 0) {
    key_copy.find(p, request, key, item.kv_end);
    value_copy.find(p, request, key, item.kv_end);
    key_copy.copy(keys, key_tensor, key, item.kv_end);
    value_copy.copy(values, p.v, key, item.kv_end);
  }
  copy_async_commit();
  if constexpr (Variant::HAS_QUERY_TRANSFORM) {
    copy_async_wait<1>();
    transform_queries(queries, p, variant, request, kv_head, first_row, last_row);
  }

  Outputs o;
  RowStates rows;
#pragma unroll
  for (int r = 0; r < ROWS_PER_THREAD; ++r) {
    rows.max[r] = NO_LOGIT;
    rows.sum[r] = 0.f;
#pragma unroll
    for (int d = 0; d < HEAD_DIM / 8; ++d) o[r / 2][d][r % 2 * 2] = o[r / 2][d][r % 2 * 2 + 1] = 0.f;
  }

  const OperandLanes lanes;
  const float scale = exponent_scale(p);
  int stage = 0;
#pragma unroll 1
  while (key >= 0) {
    bool next_full;
    const int next = cursor.next(variant, next_full);
    // This tile has arrived, and every warp is done with the one before it, whose place the next one takes.
    copy_async_wait<0>();
    __syncthreads();
    const int next_stage = (stage + 1) % STAGES;
    if (next >= 0) {
      key_copy.find(p, request, next, item.kv_end);
      value_copy.find(p, request, next, item.kv_end);
    }

    Logits s;
    multiply_queries_keys(s, queries, {keys.base + stage * keys.BYTES}, lanes);
    if (next >= 0) {  // by now the page look-ups have returned
      key_copy.copy({keys.base + next_stage * keys.BYTES}, key_tensor, next, item.kv_end);
      value_copy.copy({values.base + next_stage * values.BYTES}, p.v, next, item.kv_end);
      copy_async_commit();
    }
    apply_hooks(s, p, variant, request, kv_head, first_row, key, item.kv_end, full);
    if constexpr (!Variant::PLAIN) follow_maximum(s, o, rows, scale);
    float shift[ROWS_PER_THREAD];
    row_shifts(shift, rows, scale);
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
  write_rows(p, variant, o, rows, request, item, kv_head, first_row, last_row, queries);
}
