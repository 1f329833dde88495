#pragma once
#include "memory/smem_tile.cuh"

// Shared memory of Q, K, V and O tiles.
struct SmemTiles {
  SmemQ q;
  SmemK k;
  SmemV v;
  unsigned o;

  SmemQ q_stage(int stage) const { return {q.base + stage * SmemQ::BYTES}; }
  SmemK k_stage(int stage) const { return {k.base + stage * SmemK::BYTES}; }
  SmemV v_stage(int stage) const { return {v.base + stage * SmemV::BYTES}; }
};
