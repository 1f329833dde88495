#pragma once
#include "memory/smem_tile.cuh"

// The tile of P where warpgroups exchange it.
constexpr int SMEM_P_BYTES = V_SHARES_K ? TILE_ROWS * TILE_KEYS * 2 : 0;

// Shared memory of Q, K, V, O and P tiles.
struct SmemTiles {
  SmemQ q;
  SmemK k;
  SmemV v;
  unsigned o, p;

  SmemQ q_stage(int stage) const { return {q.base + stage * SmemQ::BYTES}; }
  SmemK k_stage(int stage) const { return {k.base + stage * SmemK::BYTES}; }
  SmemV v_stage(int stage) const { return {v.base + stage * SmemV::BYTES}; }
};
