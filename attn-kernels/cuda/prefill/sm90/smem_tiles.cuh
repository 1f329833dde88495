#pragma once
#include "memory/smem_tile.cuh"

#ifdef ATTN_E4M3_PRODUCTS
// V as it is stored, in pairs. The kernel transposes it (`e4m3/transpose.cuh`), unless a pass before did.
using SmemRawV = SmemTile<TILE_KEYS, HEAD_DIM_VO / 2>;
constexpr int RAW_STAGES = V_PREPROCESSED ? 0 : 2;

// Stage and phase parity of the n-th tile of V as it is stored.
struct RawState {
  int stage;
  unsigned phase;
  explicit RawState(int n) : stage(n % 2), phase(n / 2 & 1) {}
};

#endif  // ATTN_E4M3_PRODUCTS
// Shared memory of Q, K, V and O tiles.
struct SmemTiles {
  SmemQ q;
  SmemK k;
  SmemV v;
  unsigned o;
#ifdef ATTN_E4M3_PRODUCTS
  SmemRawV raw;
  unsigned raw_barriers;

  SmemRawV raw_stage(int stage) const { return {raw.base + stage * SmemRawV::BYTES}; }
  // Completes when V has arrived as it is stored.
  unsigned raw_full(int stage) const { return raw_barriers + 8 * stage; }
#endif  // ATTN_E4M3_PRODUCTS

  SmemQ q_stage(int stage) const { return {q.base + stage * SmemQ::BYTES}; }
  SmemK k_stage(int stage) const { return {k.base + stage * SmemK::BYTES}; }
  SmemV v_stage(int stage) const { return {v.base + stage * SmemV::BYTES}; }
};
