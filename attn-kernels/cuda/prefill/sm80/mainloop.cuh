// Mainloop of sm_80 prefill (FlashAttention-2): a Q tile against its KV range on mma.sync, with K and V tiles in a
// cp.async pipeline of STAGES stages. 32 * WARPS threads, SMEM_BYTES of dynamic shared memory; an item without rows is
// unused capacity.
#pragma once
#include "schedule/kv_tile_iter.cuh"
#include "prefill/epilogue.cuh"
#include "prefill/q_loader.cuh"

// Shared memory: the Q tile, then STAGES K tiles, then STAGES V tiles, unless V shares K.
constexpr int SMEM_BYTES = SmemQ::BYTES + STAGES * (SmemK::BYTES + (V_SHARES_K ? 0 : SmemV::BYTES));

// A warp whose rows are all masked in a tile skips the tile. Not with a logits transform: measured, the branch keeps
// the compiler from interleaving, which costs more (3 % of soft cap at head_dim 128; a window of 1024 gains 3 %).
constexpr bool SKIP_MASKED_WARPS = !SCALE_LOGITS;

static_assert(SMEM_BYTES <= 227 * 1024, "shared memory of an SM: at most 227 KiB per CTA");
static_assert(STAGES >= 2, "a tile is loaded while the previous one is in use");
static_assert(SAME<QoElem, KvElem> || IS_FP8<KvElem>, "Q and K have one element type, unless K is preprocessed");
static_assert(K_PREPROCESSED == (Variant::HAS_KEY_TRANSFORM || IS_FP8<KvElem>),
              "K is preprocessed where it is transformed or fp8");
static_assert(V_PREPROCESSED == (Variant::HAS_VALUE_TRANSFORM || (IS_FP8<KvElem> && !V_SHARES_K)),
              "V is preprocessed where it is transformed or fp8");
static_assert(!V_SHARES_K || !(Variant::HAS_KEY_TRANSFORM || Variant::HAS_VALUE_TRANSFORM),
              "V cannot share K if a hook transforms either");
static_assert(TILE_ROWS * STAGED_ROW_BYTES <= SMEM_BYTES, "O is staged over the tiles, which have been read");

// With a KV list: positions of the keys of each stage.
inline int* shared_positions() {
  __shared__ int positions[STAGES * TILE_KEYS];
  return positions;
}

// `shared_memory`: aligned to 128 bytes.
inline void prefill_mainloop(const KernelParams& p, const Variant& variant, const WorkItem& item, int kv_head,
                             unsigned char* shared_memory) {
  SmemQ smem_q = {shared_address(shared_memory)};
  SmemK smem_k = {smem_q.base + smem_q.BYTES};
  SmemV smem_v = {V_SHARES_K ? smem_k.base : smem_k.base + STAGES * smem_k.BYTES};

  if (item.rows == 0) return;
  QTile q_tile(item, kv_head);
  KvRange kv_range(p, variant, q_tile, item);

  // preprocessed K and V are ragged, whatever the cache is
  KvTileLoader<KV_PAGED && !K_PREPROCESSED> k_loader(K_PREPROCESSED ? p.k_pre : p.k,
                                                     key_base<K_PREPROCESSED>(q_tile.request), q_tile.kv_head);
  KvTileLoader<KV_PAGED && !V_PREPROCESSED> v_loader(V_PREPROCESSED ? p.v_pre : p.v,
                                                     key_base<V_PREPROCESSED>(q_tile.request), q_tile.kv_head);
  KvRowLocation location = {};
  int* positions = nullptr;  // with a KV list: of the keys of each stage
  if constexpr (Variant::HAS_KV_LIST) positions = shared_positions();

  load_q(smem_q, p, q_tile);
  cp_async_commit();
  KvTileIter<> kv_iter(p, q_tile, item.kv_begin, kv_range.end());
  auto load_first = [&](int key) {
    if constexpr (KEYS_NEED_LOOKUP) location = locate_row(p, q_tile.request, kv_range, key);
    store_position(positions, location);
    k_loader.copy(smem_k, kv_range, key, location);
    if constexpr (!V_SHARES_K) v_loader.copy(smem_v, kv_range, key, location);
  };
  // The first tile is usually the last one of the range: load it while the tiles are classified.
  int likely = kv_iter.last();
  if (likely >= 0) load_first(likely);
  TileClasses classes;
  int key = kv_iter.next(variant, classes);
  if (key >= 0 && key != likely) {
    cp_async_commit();  // so that the wait covers these copies
    cp_async_wait<0>();
    __syncthreads();
    load_first(key);
  }
  cp_async_commit();
  if constexpr (TRANSFORM_Q) {
    cp_async_wait<1>();
    transform_q(smem_q, p, variant, q_tile);
  }

  OperandOffsets lanes;
  OutputFragment o;
  clear(o);
  SoftmaxState softmax;
  float unit = qk_scale(p, q_tile.kv_head), scale = score_scale_log2(unit);
  int stage = 0;
#pragma unroll 1
  while (key >= 0) {
    bool full = classes.full;
    int next = kv_iter.next(variant, classes);
    ScoreTile tile = {p, variant, q_tile, kv_range, key, positions + stage * TILE_KEYS, unit};
    ScoreMask mask;
    // A long mask is evaluated while K is still being loaded; with a KV list, later, because it needs the positions.
    bool active = true;  // whether any element of this warp is unmasked
    if (!Variant::HAS_KV_LIST && !full) active = mask.evaluate(tile) || !SKIP_MASKED_WARPS;
    // This tile has arrived, and every warp is done with the previous one, whose stage the next tile takes.
    cp_async_wait<0>();
    __syncthreads();
    int next_stage = (stage + 1) % STAGES;
    if constexpr (KEYS_NEED_LOOKUP)
      if (next >= 0) {
        location = locate_row(p, q_tile.request, kv_range, next);
        store_position(positions + next_stage * TILE_KEYS, location);
      }

    ScoreFragment s;
    if (active) {
      init_scores(s, tile);
      // With a transform S is computed in two halves, so that the first one is transformed while the tensor cores
      // compute the second.
      constexpr int END = TILE_KEYS / 16, HALF = SCALE_LOGITS && END > 1 ? END / 2 : END;
#pragma unroll
      for (int first = 0; first < END; first += HALF) {
        gemm_qk(s, smem_q, {smem_k.base + stage * smem_k.BYTES}, first, first + HALF, lanes);
        transform_scores(s, tile, first, first + HALF);
      }
    }
    if (next >= 0) {  // by now the look-up has returned
      k_loader.copy(SmemK{smem_k.base + next_stage * smem_k.BYTES}, kv_range, next, location);
      if constexpr (!V_SHARES_K)
        v_loader.copy(SmemV{smem_v.base + next_stage * smem_v.BYTES}, kv_range, next, location);
      cp_async_commit();
    }
    if (active) {
      bool masked = !full;
      if constexpr (Variant::HAS_KV_LIST) {
        masked = !listed_tile_is_full(tile);
        if (masked) mask.evaluate(tile);
      }
      if (masked) mask.apply(s, tile);
      if constexpr (!Variant::PLAIN)
        update_row_max<NoBias>(softmax, s, scale, nullptr, [&](int r, float factor) { rescale_o(o, r, factor); });
      ScaledRowMax scaled_max(softmax, scale);
      // 16 keys at a time, so that the softmax of the next 16 overlaps with the MMAs of these.
#pragma unroll
      for (int n = 0; n < TILE_KEYS / 16; ++n) {
        ProbFragment probs;
        scores_to_packed_probs(probs, s, softmax, tile, scaled_max, scale, n);
        gemm_pv(o, probs, {smem_v.base + stage * smem_v.BYTES}, n, lanes);
      }
    }

    key = next;
    stage = next_stage;
  }

  cp_async_wait<0>();
  __syncthreads();
  // All warps have read Q, over which O is staged.
  store_rows(p, variant, o, softmax, q_tile, item.partial, smem_q.base,
             [&](float unit, unsigned staging) { store_untransformed(p, variant, o, softmax, unit, q_tile, staging); });
}
