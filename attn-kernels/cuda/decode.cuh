// attn_decode: TILE_ROWS packed query rows against a span of keys, on CUDA cores. Grid (items, kv_heads), 32 * WARPS threads,
// SMEM_BYTES of dynamic shared memory.
//
// Decode moves bytes: each key is read once and used for a few rows. So all that matters is that loads never stop. Teams of
// lanes own disjoint keys and never wait for each other until the end, where their states merge in a fixed order.
//
// Besides the cell block of every template: constexpr int TEAM_KEYS, keys of a team in one step of the ring.
#pragma once

#include "online_rows.cuh"

constexpr int QUERY_BYTES = TILE_ROWS * HEAD_DIM * 4;
constexpr int STATE_BYTES = TEAMS * TILE_ROWS * (HEAD_DIM * 4 + 8);
// The states at the end take the place of the ring.
constexpr int SMEM_BYTES = QUERY_BYTES + (KeyRing::BYTES > STATE_BYTES ? KeyRing::BYTES : STATE_BYTES);

// Loads, transforms and scales the query rows, a row a team, into shared memory in f32: the transform then is in the code once.
inline void load_queries(const KernelParams& p, const Variant& variant, const QueryBlock& block, float* queries) {
  float scale = QUERY_IN_LOG2 ? p.sm_scale * LOG2_E : p.sm_scale;
  int team = threadIdx.x / ROW_LANES;
#pragma unroll 1
  for (int first = 0; first < TILE_ROWS; first += TEAMS) {
    int r = min(first + team, TILE_ROWS - 1);
    RowIndex at = block.at(p, block.existing(r));
    const QoElem* row = static_cast<const QoElem*>(p.q.data) + row_offset(p.q, at);
    Values query;
    unpack<QoElem>(query, *reinterpret_cast<const uint4*>(row + Values::first()));
    if constexpr (Variant::HAS_QUERY_TRANSFORM) variant.query_transform(query, at);
    if (first + team < TILE_ROWS)
#pragma unroll
      for (int i = 0; i < LANE_VALUES; ++i) queries[r * HEAD_DIM + Values::first() + i] = query.x[i] * scale;
  }
}

// Runs the ring over the span. Loads are STAGES - 1 steps ahead of the arithmetic, page numbers one more.
inline void attend(const Variant& variant, const KeyRing& ring, KeyWalk<STEP_KEYS>& walk, OnlineRows& rows, KeyStep (&ready)[STAGES],
                   KeyStep ahead, KeyPlace place, int kv_end) {
  int stage = 0;
#pragma unroll 1
  while (ready[0].key < kv_end) {
    ready[STAGES - 1] = ahead;
    if (ahead.key < kv_end) {
      ring.fetch(stage == 0 ? STAGES - 1 : stage - 1, place);  // the stage of the step before this one
      ahead = walk.next(variant);
      place = ring.find(ahead);
    }
    copy_async_commit();  // empty at the end, so that the count of groups stays
    copy_async_wait<STAGES - 1>();
    rows.step(ring, stage, ready[0]);
#pragma unroll
    for (int i = 0; i + 1 < STAGES; ++i) ready[i] = ready[i + 1];
    stage = stage + 1 == STAGES ? 0 : stage + 1;
  }
}

// Merges the teams' states of each row, in the order of the teams, and writes the row's output or its partial state.
inline void write_rows(const KernelParams& p, const Variant& variant, const QueryBlock& block, int slot, const float* sums,
                       const float2* md) {
  int team = threadIdx.x / ROW_LANES;
#pragma unroll 1
  for (int first = 0; first < block.rows; first += TEAMS) {
    int r = block.existing(first + team);
    bool exists = block.has(first + team);
    PartialRow state;
#pragma unroll
    for (int other = 0; other < TEAMS; ++other) state.absorb(load_partial(sums + (r * TEAMS + other) * HEAD_DIM, md + r * TEAMS + other));
    if (slot < 0) {
      write_output(p, variant, state, block.at(p, r), exists);
    } else if (exists) {
      long long index = partial_index(p, slot, block.kv_head, r);
      store_partial(state, p.partial_o + index * HEAD_DIM, p.partial_md + index);
    }
  }
}

extern "C" __global__ void __launch_bounds__(THREADS)
    attn_decode(const __grid_constant__ KernelParams p, const __grid_constant__ Variant variant) {
  extern __shared__ __align__(16) unsigned char shared[];
  float* queries = reinterpret_cast<float*>(shared);
  unsigned char* ring_memory = shared + QUERY_BYTES;

  // Heads run fastest over the grid, so that the heads of a page, neighbours in memory, are read at the same time.
  unsigned cta = blockIdx.y * gridDim.x + blockIdx.x;
  WorkItem item = p.items[cta / gridDim.y];
  QueryBlock block(item, cta % gridDim.y);
  SpanKeys span(p, variant, block, item);
  KeyWalk<STEP_KEYS> walk(p, block, item.kv_begin, span.end());
  KeyRing ring(p, block, span, ring_memory);

  // The first keys are on their way before the queries are looked at.
  KeyStep ready[STAGES], ahead = {span.end()};
  KeyPlace place = {0, 0};
  if (item.kv_begin < span.end()) {
    KeyPlace places[STAGES];
#pragma unroll
    for (int i = 0; i < STAGES; ++i) {
      ready[i] = walk.next(variant);
      places[i] = ring.find(ready[i]);
    }
#pragma unroll
    for (int i = 0; i + 1 < STAGES; ++i) {
      if (ready[i].key < span.end()) ring.fetch(i, places[i]);
      copy_async_commit();
    }
    ahead = ready[STAGES - 1];
    place = places[STAGES - 1];
  } else {
    ready[0] = ahead;
  }

  load_queries(p, variant, block, queries);
  __syncthreads();
  OnlineRows rows(variant, block, queries, block.at(p, block.existing(OnlineRows::lane_row())));
  attend(variant, ring, walk, rows, ready, ahead, place, span.end());

  float* sums = reinterpret_cast<float*>(ring_memory);  // [TILE_ROWS][TEAMS][HEAD_DIM]
  float2* md = reinterpret_cast<float2*>(sums + TILE_ROWS * TEAMS * HEAD_DIM);
  int team = threadIdx.x / ROW_LANES;
  __syncthreads();  // every team is done with the ring
  rows.store(sums + team * HEAD_DIM, md + team, TEAMS * HEAD_DIM, TEAMS);
  __syncthreads();
  write_rows(p, variant, block, item.partial, sums, md);
}
