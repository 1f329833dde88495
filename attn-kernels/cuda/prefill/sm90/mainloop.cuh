// The warpgroups that multiply, 64 rows each. Products run in the background (wgmma): those of a tile's queries and keys beside those of the tile's before with its
// values, and the first weights are computed while the latter run (FlashAttention-3, arXiv 2407.08608).
#pragma once
#include "prefill/sm90/producer.cuh"
#include "prefill/sm90/store.cuh"
#include "arch/wgmma.cuh"
#include "prefill/sm90/softmax_step.cuh"

// Warpgroups begin their products one after the other, once the logits of the one before are there, so that one computes weights meanwhile: where registers are few, or
// rows long; of two that have rows of 128 elements under an affine bias alone (3 %; a soft cap is 6 % slower so).
constexpr bool TAKE_TURNS = !SHORT_ROWS || WARPGROUPS > 2 || BIAS_AFFINE;
// The chunk of weights behind which products with values of the tile before are waited for. They have about ended then, and chunks that follow become operands one by one,
// as no products read those any more.
constexpr int WAIT_AFTER = WARPGROUPS > 2 ? 0 : SHORT_ROWS ? 3 : 1;
// Whether output rows have a place of their own, or need none; if not, queries give theirs.
constexpr bool OUTPUTS_APART = OUTPUTS_STAGED || FROM_REGISTERS;

// Whether tiles after an item's first may need a mask: only the first one ends past the last key. Instructions that are passed over cost 2 to 4 %.
constexpr bool MASKS_INSIDE = Variant::HAS_LOGITS_MASK;

// Rows of values from `first` on become 0: where no key is, their weight is, and 0 * NaN is not 0.
inline void clear_values(ValueTile values, int first) {
  constexpr int CHUNKS = ValueTile::BYTES / (TILE_KEYS * 16);
  for (int i = threadIdx.x; i < (TILE_KEYS - first) * CHUNKS; i += THREADS)
    store_shared_16(values.at(first + i / CHUNKS, i % CHUNKS), make_uint4(0, 0, 0, 0));
  fence_shared_for_tensor_cores();
  sync_some(MULTIPLY_BARRIER, THREADS);
}

inline void multiply_all(const KernelParams& p, const Variant& variant, const WarpgroupParams& w, const CtaTiles& tiles, const Ring& ring) {
  // of a warp, and so that the assembler knows: descriptors then need no vector registers
  int warp = __shfl_sync(ALL_LANES, static_cast<int>(threadIdx.x) / 32, 0), warpgroup = warp / 4;
  int part = PARTS > 1 ? warpgroup : 0;  // of the rows, as classes are told
  bool one_of_warp = threadIdx.x % 32 == 0, boxes = in_boxes(w), values_in_boxes = boxes || ValueFeed<false>::IN_BOXES;
  if constexpr (TAKE_TURNS)
    if (warpgroup == 0) give_turn(0);

  int n = 0;
  RingTile next = ring.take(n);
#pragma unroll 1
  for (int number = 0; !next.end(); ++number) {
    PlacedItem placed = ring.placed(number);
    int partial = placed.item.partial;
    QueryBlock block(placed.item, placed.kv_head);
    SpanKeys span(p, variant, block, placed.item);
    float unit = logit_unit(p, block.kv_head), scale = exponent_unit(unit);
    QueryPlace at_queries(number);
    QueryTileRows queries = tiles.queries_of(at_queries.stage);
    TileDescriptor my_queries = tile_descriptor(queries.base + warpgroup * 64 * 128, 16);
    wait_barrier(ring.queries_there(at_queries.stage), at_queries.round);
    if constexpr (QUERIES_REWRITTEN) {
      transform_queries<64, 128, HookRow<HEAD_DIM>>(queries, p, variant, block, 64 * warpgroup, threadIdx.x % 128);
      fence_shared_for_tensor_cores();
      sync_some(WARPGROUP_BARRIER + warpgroup, 128);
    }

    // Of a tile in boxes, values of keys that do not exist are cleared, by all; rows that are copied one by one are of keys that exist.
    if (values_in_boxes && next.has_keys() && next.key + TILE_KEYS > span.end()) {
      RingPlace at(n);
      wait_barrier(ring.values_there(at.stage), at.round);
      clear_values(tiles.values_of(at.stage), span.end() - next.key);
    }

    Outputs o;
    clear(o);
    MaxState max = {max_is_fixed(variant, block.request.kv_len)};
    RowStates rows(max.fixed);
    TileWeights weights;

    auto multiply_queries = [&](Logits& s, const LogitTile& tile, RingPlace at) {
      if (!boxes) fence_shared_for_tensor_cores();
      if constexpr (BIAS_FIRST) start_logits(s, tile);
      begin_logits(s, my_queries, tiles.keys_of(at.stage).base);
    };
    auto multiply_values = [&](RingPlace at) {
      wait_barrier(ring.values_there(at.stage), at.round);
      if (!boxes) fence_shared_for_tensor_cores();
      begin_outputs(o, weights, tiles.values_of(at.stage).base);
    };
    // Keys have been read by the warp; queries too, for the last time, if they are of the last tile and no logits are made again.
    auto release_keys = [&](RingPlace at) {
      __syncwarp();
      if (!one_of_warp) return;
      arrive_at(ring.keys_read(at.stage));
      if (OUTPUTS_APART && !MAX_MAY_BE_OLD && next.last()) arrive_at(ring.queries_read(at_queries.stage));
    };
    auto release_values = [&](RingPlace at) {
      __syncwarp();
      if (one_of_warp) arrive_at(ring.values_read(at.stage));
    };
    auto pack = [&](const Logits& s, int chunk) { pack_weights(*reinterpret_cast<Weights*>(&weights[chunk]), s, chunk); };

    // Tiles that come first and that no row of this warpgroup sees; the last one, at any rate, is not left out.
    bool absent = block.rows <= 64 * warpgroup, some = false, last = false;
    while (true) {
      some = next.has_keys() && !absent && !next.skip(part);
      last = next.last();
      if (some || last) break;
      RingPlace at(n);
      if constexpr (TAKE_TURNS) {
        wait_turn(warpgroup);
        give_turn((warpgroup + 1) % WARPGROUPS);
      }
      release_keys(at);
      wait_barrier(ring.values_there(at.stage), at.round);
      release_values(at);
      next = ring.take(++n);
    }
    if constexpr (TAKE_TURNS) wait_turn(warpgroup);
    if (some) {
      Logits s;
      RingPlace at(n);
      LogitTile tile = {p, variant, block, span, next.key, nullptr, unit};
      multiply_queries(s, tile, at);
      LogitMask mask;
      if (!next.full(part)) mask.ask(tile);
      Biases biases(tile);
      wait_products<0>();
      pin(s[0]);
      if constexpr (TAKE_TURNS) give_turn((warpgroup + 1) % WARPGROUPS);
      release_keys(at);
      float factor[ROWS_PER_THREAD];  // there is nothing to multiply yet
      WeighedTile weighed = {tile, next.full(part) ? nullptr : &mask, biases, scale, queries};
      weigh_tile<true>(s, rows, factor, max, weighed, [&](int chunk, bool, auto&) { pack(s, chunk); });
    } else {
      if constexpr (TAKE_TURNS) give_turn((warpgroup + 1) % WARPGROUPS);
      release_keys(RingPlace(n));
    }
    ++n;
    if (!last) ring.wait(n);
#pragma unroll 1
    while (!last) {
      Logits s;
      RingPlace at(n), before(n - 1);
      if constexpr (BIAS_FIRST) next = ring.tile(n);
      LogitTile tile = {p, variant, block, span, next.key, nullptr, unit};
      if constexpr (TAKE_TURNS) wait_turn(warpgroup);
      multiply_queries(s, tile, at);
      multiply_values(before);
      if constexpr (!BIAS_FIRST) {  // products need not wait for it
        next = ring.tile(n);
        tile.first_key = next.key;
      }
      LogitMask mask;
      if (MASKS_INSIDE && !next.full(part)) mask.ask(tile);
      Biases biases(tile);
      wait_products<1>();
      pin(s[0]);
      if constexpr (TAKE_TURNS) give_turn((warpgroup + 1) % WARPGROUPS);
      release_keys(at);
      float factor[ROWS_PER_THREAD];
      auto multiply_outputs = [&] {
#pragma unroll
        for (int r = 0; r < ROWS_PER_THREAD; ++r) multiply_row(o, r, factor[r]);
      };
      WeighedTile weighed = {tile, MASKS_INSIDE && !next.full(part) ? &mask : nullptr, biases, scale, queries};
      bool again = weigh_tile<false>(s, rows, factor, max, weighed, [&](int chunk, bool grown, const float (&sums)[ROWS_PER_THREAD]) {
        if (chunk == WAIT_AFTER) {
          // behind a transform the assembler has much else to do first
          hold_wait_behind(MAX_MAY_BE_OLD ? s[0][2 * chunk + 1][3] : sums[0] + sums[1], tiles.queries.base);
          wait_products<0>();
          pin(o[0]);
          release_values(before);
          if (grown) multiply_outputs();
#pragma unroll
          for (int i = 0; i < chunk; ++i) pack(s, i);
        }
        if (chunk >= WAIT_AFTER) pack(s, chunk);
      });
      if (again) {
        multiply_outputs();
#pragma unroll
        for (int chunk = 0; chunk < TILE_CHUNKS; ++chunk) pack(s, chunk);
      }
      last = next.last();
      ++n;
      if (!last) ring.wait(n);
    }
    if constexpr (OUTPUTS_APART && MAX_MAY_BE_OLD) {
      __syncwarp();
      if (one_of_warp) arrive_at(ring.queries_read(at_queries.stage));
    }
    RingPlace at(n - 1);
    if (some) {
      multiply_values(at);
      wait_products<0>();
      pin(o[0]);
    } else {
      wait_barrier(ring.values_there(at.stage), at.round);  // also where there are none: who copies says so, and waits for the round that this one ends
    }
    release_values(at);
    if constexpr (!OUTPUTS_APART) sync_some(MULTIPLY_BARRIER, THREADS);  // queries have been read, by all
    if constexpr (OUTPUTS_STAGED) wait_boxes_read();
    write_rows(p, variant, o, rows, block, partial, tiles.outputs,
               [&](float unit, unsigned staging) { write_final(p, w, variant, o, rows, unit, block, warp, staging); });
    if constexpr (!OUTPUTS_APART) {
      fence_shared_for_tensor_cores();  // and for boxes of queries, which come where rows were written
      __syncwarp();
      if (one_of_warp) arrive_at(ring.queries_read(at_queries.stage));
    }
    next = ring.take(n);
  }
  if constexpr (OUTPUTS_STAGED) wait_boxes_read();  // shared memory is there as long as the CTA is
}
