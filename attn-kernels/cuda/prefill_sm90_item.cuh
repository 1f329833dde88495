// What a prefill CTA does on Hopper: a tile of packed query rows against a span of keys. Some warpgroups multiply, 64 rows each; the last one copies keys and
// values into a ring of STAGES tiles and never waits for arithmetic but for room. Products run in the background (wgmma): those of a tile's queries and keys
// beside those of the tile's before with its values, and weights are computed while the latter run (FlashAttention-3, arXiv 2407.08608).
// An item without rows is room that is not needed.
#pragma once
#include "barriers.cuh"
#include "cursor.cuh"
#include "epilogue.cuh"
#include "queries.cuh"
#include "warpgroup.cuh"

constexpr int CTA_THREADS = THREADS + 32 * COPY_WARPS;
// The query tile, then STAGES key tiles, then STAGES value tiles; from a multiple of 1024 on, wherever the dynamic shared memory begins.
constexpr int TILES_ALIGNMENT = 1024;
constexpr int SMEM_BYTES = TILES_ALIGNMENT + QueryTileRows::BYTES + STAGES * (KeyTile::BYTES + ValueTile::BYTES);

// Registers of 64 K, in eights: a thread that copies needs few, one that multiplies many.
constexpr int COPY_REGISTERS = 40, MULTIPLY_REGISTERS = 232;
static_assert(COPY_WARPS == 4 && WARPGROUPS == 2, "the registers are dealt to three warpgroups");
static_assert(SMEM_BYTES <= 227 * 1024, "the largest shared memory there is");
static_assert(SAME<QoElem, KvElem> || IS_FP8<KvElem>, "queries meet keys as they are, unless the pass rewrote them");
static_assert(KEY_PRE_PASS == (Variant::HAS_KEY_TRANSFORM || IS_FP8<KvElem>), "keys come transformed, and in 16 bits");
static_assert(VALUE_PRE_PASS == (Variant::HAS_VALUE_TRANSFORM || IS_FP8<KvElem>), "values come transformed, and in 16 bits");
static_assert(!Variant::HAS_KV_LIST && !VALUES_OF_KEYS, "not here");
static_assert(TILE_ROWS * STAGED_ROW_BYTES <= QueryTileRows::BYTES + STAGES * KeyTile::BYTES, "output rows take the place of tiles, which have been read");

// The token of position 0 of what is not in pages.
template <bool REWRITTEN>
inline int key_base(const Request& request) { return REWRITTEN ? rewritten_base(request) : ragged_base(request); }

// A tile of keys that is to be multiplied, as who copies it found out: its first key, or -1 after the last one.
struct RingTile {
  int key;
  int full;  // every logit counts
};

// Who waits for whom, of each stage of the ring.
class RingBarriers {
  unsigned base_;
  volatile RingTile* tiles_;

 public:
  static constexpr int COUNT = 5 * STAGES;
  RingBarriers(unsigned long long* barriers, RingTile* tiles) : base_(shared_address(barriers)), tiles_(tiles) {}

  // Keys, and values, have arrived; keys, and values, have been read.
  unsigned keys_there(int stage) const { return base_ + 8 * stage; }
  unsigned values_there(int stage) const { return base_ + 8 * (STAGES + stage); }
  unsigned keys_read(int stage) const { return base_ + 8 * (2 * STAGES + stage); }
  unsigned values_read(int stage) const { return base_ + 8 * (3 * STAGES + stage); }
  unsigned tile_known(int stage) const { return base_ + 8 * (4 * STAGES + stage); }

  // By one thread, of a stage whose keys have been read: so the tile before in it is known no longer.
  void tell(int stage, RingTile tile) const {
    tiles_[stage].key = tile.key;
    tiles_[stage].full = tile.full;
    arrive_at(tile_known(stage));
  }
  RingTile ask(int stage, unsigned round) const {
    wait_barrier(tile_known(stage), round);
    return {tiles_[stage].key, tiles_[stage].full};
  }

  // By one thread.
  void init() const {
#pragma unroll
    for (int stage = 0; stage < STAGES; ++stage) {
      init_barrier(keys_there(stage), 32 * COPY_WARPS);
      init_barrier(values_there(stage), 32 * COPY_WARPS);
      init_barrier(keys_read(stage), WARPS);
      init_barrier(values_read(stage), WARPS);
      init_barrier(tile_known(stage), 1);
    }
    publish_barriers();
  }
};

// Where the n-th tile of a walk is in the ring, and how often its stage was used before.
struct RingPlace {
  int stage;
  unsigned round;
  explicit RingPlace(int n) : stage(n % STAGES), round(n / STAGES & 1) {}
};

// The warpgroup that copies.
template <class Item>
inline void copy_tiles(const KernelParams& p, const Variant& variant, const Item& item, int kv_head, KeyTile keys, ValueTile values,
                       const RingBarriers& ring) {
  QueryBlock block(item, kv_head);
  SpanKeys span(p, variant, block, item);
  // What a pass rewrote is ragged, whatever it was before.
  KeyTileCopy<KV_PAGED && !KEY_PRE_PASS> key_copy(KEY_PRE_PASS ? p.k_pre : p.k, key_base<KEY_PRE_PASS>(block.request), block.kv_head);
  KeyTileCopy<KV_PAGED && !VALUE_PRE_PASS> value_copy(VALUE_PRE_PASS ? p.v_pre : p.v, key_base<VALUE_PRE_PASS>(block.request), block.kv_head);
  TileCursor cursor(p, block, item.kv_begin, span.end());
  bool full;
  int key = cursor.next(variant, full);
  FoundRow found = {};
  if constexpr (KEYS_LOOKED_UP)
    if (key >= 0) found = find_row(p, block.request, span, key, nullptr);
  bool tells = copy_thread() == 0;
  int n = 0;
#pragma unroll 1
  for (; key >= 0; ++n) {
    RingPlace at(n);
    RingTile tile = {key, full};
    int next = cursor.next(variant, full);
    FoundRow next_found = {};  // on its way while this thread waits for room
    if constexpr (KEYS_LOOKED_UP)
      if (next >= 0) next_found = find_row(p, block.request, span, next, nullptr);
    wait_barrier(ring.keys_read(at.stage), at.round ^ 1);
    if (tells) ring.tell(at.stage, tile);
    key_copy.copy(KeyTile{keys.base + at.stage * keys.BYTES}, span, key, found);
    arrive_when_copied(ring.keys_there(at.stage));
    wait_barrier(ring.values_read(at.stage), at.round ^ 1);
    value_copy.copy(ValueTile{values.base + at.stage * values.BYTES}, span, key, found);
    arrive_when_copied(ring.values_there(at.stage));
    key = next;
    found = next_found;
  }
  RingPlace end(n);
  wait_barrier(ring.keys_read(end.stage), end.round ^ 1);
  if (tells) ring.tell(end.stage, {-1, 0});
  copy_async_wait<0>();
}

// Those that multiply.
template <class Item>
inline void multiply_tiles(const KernelParams& p, const Variant& variant, const Item& item, int kv_head, QueryTileRows queries, KeyTile keys,
                           ValueTile values, const RingBarriers& ring) {
  QueryBlock block(item, kv_head);
  SpanKeys span(p, variant, block, item);
  copy_queries(queries, p, block);
  copy_async_commit();
  copy_async_wait<0>();
  if constexpr (QUERIES_REWRITTEN) transform_queries(queries, p, variant, block);
  fence_shared_for_tensor_cores();
  sync_some(1, THREADS);

  // of a warp, and so that the assembler knows: descriptors then need no vector registers
  int warpgroup = __shfl_sync(ALL_LANES, static_cast<int>(threadIdx.x) / 128, 0);
  bool one_of_warp = threadIdx.x % 32 == 0;
  TileDescriptor my_queries = tile_descriptor(queries.base + warpgroup * 64 * 128, 16);
  float unit = logit_unit(p, block.kv_head), scale = exponent_unit(unit);

  Outputs o;
  clear(o);
  RowStates rows;
  TileWeights weights;

  auto begin_tile = [&](Logits& s, const LogitTile& tile, RingPlace at) {
    wait_barrier(ring.keys_there(at.stage), at.round);
    fence_shared_for_tensor_cores();
    if constexpr (BIAS_FIRST) start_logits(s, tile);
    begin_logits(s, my_queries, keys.base + at.stage * keys.BYTES);
  };
  auto multiply_values = [&](RingPlace at) {
    wait_barrier(ring.values_there(at.stage), at.round);
    fence_shared_for_tensor_cores();
    begin_outputs(o, weights, values.base + at.stage * values.BYTES);
  };
  // Logits, which are there, become weights in place; gives whether outputs so far are to be multiplied by `factor`.
  auto weigh_tile = [&](Logits& s, const LogitTile& tile, const LogitMask& mask, bool full, float (&factor)[ROWS_PER_THREAD]) {
    transform_logits(s, tile, 0, TILE_KEYS / 16);
    if (!full) mask.apply(s, tile);
    bool grown = false;
    if constexpr (!Variant::PLAIN) {
      float tile_max[ROWS_PER_THREAD];
      grown = maximum_grows(tile_max, s, rows, scale);
      if (grown)
#pragma unroll
        for (int r = 0; r < ROWS_PER_THREAD; ++r) {
          factor[r] = tile_max[r] == rows.max[r] ? 1.f : exp2_approx((rows.max[r] - tile_max[r]) * scale);
          rows.max[r] = tile_max[r];
          rows.sum[r] *= factor[r];
        }
    }
    RowShifts shift(rows, scale);
#pragma unroll
    for (int n = 0; n < TILE_KEYS / 16; ++n) weigh_logits(s, rows, tile, shift, scale, n);
    return grown;
  };
  auto pack_all = [&](const Logits& s) {
#pragma unroll
    for (int n = 0; n < TILE_KEYS / 16; ++n) pack_weights(*reinterpret_cast<Weights*>(&weights[n]), s, n);
  };

  int n = 0;
  RingTile next = ring.ask(0, 0);
  if (next.key >= 0) {
    Logits s;
    RingPlace at(n);
    LogitTile tile = {p, variant, block, span, next.key, nullptr, unit};
    begin_tile(s, tile, at);
    LogitMask mask;
    if (!next.full) mask.ask(tile);
    wait_products<0>();
    pin(s[0]);
    if (one_of_warp) arrive_at(ring.keys_read(at.stage));
    float factor[ROWS_PER_THREAD];
    weigh_tile(s, tile, mask, next.full, factor);  // nothing to rescale yet
    pack_all(s);
    RingPlace after(++n);
    next = ring.ask(after.stage, after.round);
  }
#pragma unroll 1
  while (next.key >= 0) {
    Logits s;
    RingPlace at(n), before(n - 1);
    LogitTile tile = {p, variant, block, span, next.key, nullptr, unit};
    begin_tile(s, tile, at);
    multiply_values(before);
    LogitMask mask;
    if (!next.full) mask.ask(tile);
    wait_products<1>();
    pin(s[0]);
    if (one_of_warp) arrive_at(ring.keys_read(at.stage));
    float factor[ROWS_PER_THREAD];
    bool grown = weigh_tile(s, tile, mask, next.full, factor);
    hold_wait_behind(rows.sum[0] + rows.sum[1], queries.base);
    wait_products<0>();
    pin(o[0]);
    if (one_of_warp) arrive_at(ring.values_read(before.stage));
    if (grown)
#pragma unroll
      for (int i = 0; i < COLUMNS / 2; ++i) o[0][i / 4][i % 4] *= factor[i % 4 / 2];
    pack_all(s);
    RingPlace after(++n);
    next = ring.ask(after.stage, after.round);
  }
  if (n > 0) {
    multiply_values(RingPlace(n - 1));
    wait_products<0>();
    pin(o[0]);
  }
  sync_some(1, THREADS);  // queries have been read, by all
  write_rows(p, variant, o, rows, block, item.partial, queries);
}

// `shared_memory`: SMEM_BYTES.
template <class Item>
inline void run_item(const KernelParams& p, const Variant& variant, const Item& item, int kv_head, unsigned char* shared_memory) {
  __shared__ unsigned long long barriers[RingBarriers::COUNT];
  __shared__ RingTile tiles[STAGES];
  if (item.rows == 0) return;
  QueryTileRows queries = {(shared_address(shared_memory) + TILES_ALIGNMENT - 1) / TILES_ALIGNMENT * TILES_ALIGNMENT};
  KeyTile keys = {queries.base + queries.BYTES};
  ValueTile values = {keys.base + STAGES * keys.BYTES};
  RingBarriers ring(barriers, tiles);
  if (threadIdx.x == 0) ring.init();
  __syncthreads();
  // of a warp, and so that the assembler knows
  if (__shfl_sync(ALL_LANES, static_cast<int>(threadIdx.x) / THREADS, 0)) {
    release_registers<COPY_REGISTERS>();
    copy_tiles(p, variant, item, kv_head, keys, values, ring);
  } else {
    claim_registers<MULTIPLY_REGISTERS>();
    multiply_tiles(p, variant, item, kv_head, queries, keys, values, ring);
  }
}
