// Products of a warpgroup (wgmma): four warps, 16 rows each, whose accumulators lie in registers as those of mma.sync do, and operands in shared memory as
// tiles are (panels of 64 elements, chunks permuted by the row: what the hardware calls a swizzle of 128 bytes). The instructions, of exactly the cell's
// widths, are written by the splicer (`multiply_logits`, `multiply_outputs`).
#pragma once
#include "prefill/fragments.cuh"

constexpr int WARPGROUPS = WARPS / 4;
static_assert(ROW_BLOCKS == 1 && COLUMN_WARPS == 1, "a warpgroup has 64 rows");

using TileDescriptor = unsigned long long;

// Of a tile at `address`, a multiple of 1024 but for whole rows of queries. `panels`: bytes from a panel to the next, where a product runs along rows of values;
// eight rows are 1024 bytes.
inline TileDescriptor tile_descriptor(unsigned address, unsigned panels) {
  return (TileDescriptor)((address & 0x3ffff) >> 4) | (TileDescriptor)(panels >> 4) << 16 | (TileDescriptor)(1024 >> 4) << 32 | 1ull << 62;
}
// So many bytes further on.
inline TileDescriptor further(TileDescriptor tile, unsigned bytes) { return tile + (bytes >> 4); }

// Between writing registers that products read or add to, and the products.
inline void begin_products() { asm volatile("wgmma.fence.sync.aligned;" ::: "memory"); }
// Ends a group of products, which run in the background.
inline void commit_products() { asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory"); }
// Until at most so many groups are under way.
template <int pending>
inline void wait_products() {
  asm volatile("wgmma.wait_group.sync.aligned %0;" ::"n"(pending) : "memory");
}

// The compiler knows nothing of what runs in the background: it must neither move arithmetic on accumulators over a wait nor keep them elsewhere.
template <int N>
inline void pin(float (&x)[N][4]) {
#pragma unroll
  for (int n = 0; n < N; ++n)
#pragma unroll
    for (int e = 0; e < 4; ++e) asm volatile("" : "+f"(x[n][e])::"memory");
}
template <int N>
inline void pin(unsigned (&x)[N][4]) {
#pragma unroll
  for (int n = 0; n < N; ++n)
#pragma unroll
    for (int e = 0; e < 4; ++e) asm volatile("" : "+r"(x[n][e])::"memory");
}

// The assembler moves a wait for products as far up as it may, and with it all that was to run beside them. It stays behind `x`, which a store depends on that
// never happens: no arithmetic gives this NaN.
inline void hold_wait_behind(float x, unsigned shared) {
  asm volatile(
      "{\n"
      ".reg .pred never;\n"
      "setp.eq.u32 never, %0, 0x7fdeadbe;\n"
      "@never st.shared.u32 [%1], %0;\n"
      "}" ::"r"(__float_as_uint(x)), "r"(shared) : "memory");
}

// logits += Q K^T of the warpgroup's 64 rows, in the background; from 0 unless `s` holds what they are added to.
inline void begin_logits(Logits& s, TileDescriptor queries, unsigned keys) {
  TileDescriptor tile = tile_descriptor(keys, 16);
  pin(s[0]);
  begin_products();
#pragma unroll
  for (int d = 0; d < HEAD_DIM / 16; ++d)
    multiply_logits<LogitElem>(s[0], further(queries, d / 4 * QueryTileRows::PANEL_BYTES + d % 4 * 32),
                               further(tile, d / 4 * KeyTile::PANEL_BYTES + d % 4 * 32), BIAS_FIRST || d > 0);
  commit_products();
}

// Weights of a tile, as operands.
using TileWeights = unsigned[TILE_KEYS / 16][4];

// outputs += weights * V, in the background.
inline void begin_outputs(Outputs& o, TileWeights& w, unsigned values) {
  TileDescriptor tile = tile_descriptor(values, ValueTile::PANEL_BYTES);
  pin(o[0]);
  pin(w);
  begin_products();
#pragma unroll
  for (int n = 0; n < TILE_KEYS / 16; ++n) multiply_outputs<WeightElem>(o[0], w[n], further(tile, n * 2048));
  commit_products();
}

// Warpgroups take turns: each waits for its own, and gives the next one's.
inline void wait_turn(int warpgroup) { sync_some(TURN_BARRIER + warpgroup, 256); }
inline void give_turn(int warpgroup) { asm volatile("bar.arrive %0, 256;" ::"r"(TURN_BARRIER + warpgroup) : "memory"); }
