// What a prefill CTA does: tensor cores, a tile of packed query rows against a span of keys, FlashAttention-2 style. In 32 * WARPS threads,
// with SMEM_BYTES of dynamic shared memory. An item without rows is room that is not needed.
#pragma once
#include "schedule/kv_tile_iter.cuh"
#include "prefill/epilogue.cuh"
#include "prefill/q_loader.cuh"

// The query tile, then STAGES key tiles, then STAGES value tiles, unless those are the same.
constexpr int SMEM_BYTES = QueryTileRows::BYTES + STAGES * (KeyTile::BYTES + (VALUES_OF_KEYS ? 0 : ValueTile::BYTES));

// A warp without logits that count leaves the tile to the others. Not where logits are transformed: measured, what such a branch
// keeps the compiler from interleaving costs more (3 % of soft cap at head_dim 128; a window of 1024 gains 3 %).
constexpr bool WARPS_REST = !SCALE_LOGITS;

static_assert(SMEM_BYTES <= 227 * 1024, "the largest shared memory there is");
static_assert(STAGES >= 2, "a tile is copied while the one before it is in use");
static_assert(SAME<QoElem, KvElem> || IS_FP8<KvElem>, "queries meet keys as they are, unless the pass rewrote them");
static_assert(KEY_PRE_PASS == (Variant::HAS_KEY_TRANSFORM || IS_FP8<KvElem>), "keys come transformed, and in 16 bits");
static_assert(VALUE_PRE_PASS == (Variant::HAS_VALUE_TRANSFORM || (IS_FP8<KvElem> && !VALUES_OF_KEYS)), "values come transformed, and in 16 bits");
static_assert(!VALUES_OF_KEYS || !(Variant::HAS_KEY_TRANSFORM || Variant::HAS_VALUE_TRANSFORM), "rows that hooks rewrite are not shared");
static_assert(TILE_ROWS * STAGED_ROW_BYTES <= SMEM_BYTES, "output rows take the place of tiles, which have been read");

// Under a list: positions of the keys of every stage.
inline int* shared_positions() {
  __shared__ int positions[STAGES * TILE_KEYS];
  return positions;
}

// `item`: a WorkItem or a MixedItem. `shared_memory`: from a multiple of 128 bytes on.
template <class Item>
inline void run_item(const KernelParams& p, const Variant& variant, const Item& item, int kv_head, unsigned char* shared_memory) {
  QueryTileRows queries = {shared_address(shared_memory)};
  KeyTile keys = {queries.base + queries.BYTES};
  ValueTile values = {VALUES_OF_KEYS ? keys.base : keys.base + STAGES * keys.BYTES};

  if (item.rows == 0) return;
  QueryBlock block(item, kv_head);
  SpanKeys span(p, variant, block, item);

  // What a pass rewrote is ragged, whatever it was before.
  KeyTileCopy<KV_PAGED && !KEY_PRE_PASS> key_copy(KEY_PRE_PASS ? p.k_pre : p.k, key_base<KEY_PRE_PASS>(block.request), block.kv_head);
  KeyTileCopy<KV_PAGED && !VALUE_PRE_PASS> value_copy(VALUE_PRE_PASS ? p.v_pre : p.v, key_base<VALUE_PRE_PASS>(block.request), block.kv_head);
  FoundRow found = {};
  int* positions = nullptr;  // under a list: of the keys of each stage
  if constexpr (Variant::HAS_KV_LIST) positions = shared_positions();

  copy_queries(queries, p, block);
  copy_async_commit();
  TileCursor<> cursor(p, block, item.kv_begin, span.end());
  auto copy_first = [&](int key) {
    if constexpr (KEYS_LOOKED_UP) found = find_row(p, block.request, span, key, positions);
    key_copy.copy(keys, span, key, found);
    if constexpr (!VALUES_OF_KEYS) value_copy.copy(values, span, key, found);
  };
  // Most likely the first tile is the last one, which can be on its way while classes are found.
  int likely = cursor.last();
  if (likely >= 0) copy_first(likely);
  TileClasses classes;
  int key = cursor.next(variant, classes);
  if (key >= 0 && key != likely) {
    copy_async_commit();  // or the wait is not for these
    copy_async_wait<0>();
    __syncthreads();
    copy_first(key);
  }
  copy_async_commit();
  if constexpr (QUERIES_REWRITTEN) {
    copy_async_wait<1>();
    transform_queries(queries, p, variant, block);
  }

  OperandLanes lanes;
  Outputs o;
  clear(o);
  RowStates rows;
  float unit = logit_unit(p, block.kv_head), scale = exponent_unit(unit);
  int stage = 0;
#pragma unroll 1
  while (key >= 0) {
    bool full = classes.full;
    int next = cursor.next(variant, classes);
    LogitTile tile = {p, variant, block, span, key, positions + stage * TILE_KEYS, unit};
    LogitMask mask;
    // A long mask is asked while keys may still be on their way; under a list, where positions have to arrive first, later.
    bool some = true;  // of this warp's logits count
    if (!Variant::HAS_KV_LIST && !full) some = mask.ask(tile) || !WARPS_REST;
    // This tile has arrived, and every warp is done with the one before it, whose place the next one takes.
    copy_async_wait<0>();
    __syncthreads();
    int next_stage = (stage + 1) % STAGES;
    if constexpr (KEYS_LOOKED_UP)
      if (next >= 0) found = find_row(p, block.request, span, next, positions + next_stage * TILE_KEYS);

    Logits s;
    if (some) {
      start_logits(s, tile);
      // What is transformed is multiplied in two halves, so that the first is transformed while the tensor cores are at the second.
      constexpr int END = TILE_KEYS / 16, HALF = SCALE_LOGITS && END > 1 ? END / 2 : END;
#pragma unroll
      for (int first = 0; first < END; first += HALF) {
        multiply_queries_keys(s, queries, {keys.base + stage * keys.BYTES}, first, first + HALF, lanes);
        transform_logits(s, tile, first, first + HALF);
      }
    }
    if (next >= 0) {  // by now the look-up has returned
      key_copy.copy(KeyTile{keys.base + next_stage * keys.BYTES}, span, next, found);
      if constexpr (!VALUES_OF_KEYS) value_copy.copy(ValueTile{values.base + next_stage * values.BYTES}, span, next, found);
      copy_async_commit();
    }
    if (some) {
      bool masked = !full;
      if constexpr (Variant::HAS_KV_LIST) {
        masked = !all_listed_count(tile);
        if (masked) mask.ask(tile);
      }
      if (masked) mask.apply(s, tile);
      if constexpr (!Variant::PLAIN) follow_maximum<NoBiases>(rows, s, scale, nullptr, [&](int r, float factor) { multiply_row(o, r, factor); });
      RowShifts shift(rows, scale);
      // By 16 keys, so that the weights of the next ones are computed while the tensor cores are at these.
#pragma unroll
      for (int n = 0; n < TILE_KEYS / 16; ++n) {
        Weights w;
        weigh(w, s, rows, tile, shift, scale, n);
        multiply_weights_values(o, w, {values.base + stage * values.BYTES}, n, lanes);
      }
    }

    key = next;
    stage = next_stage;
  }

  copy_async_wait<0>();
  __syncthreads();
  write_rows(p, variant, o, rows, block, item.partial, queries.base,  // which everybody has read
             [&](float unit, unsigned staging) { write_plain(p, variant, o, rows, unit, block, staging); });
}
