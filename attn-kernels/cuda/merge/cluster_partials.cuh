// Partials in the shared memory of the CTAs of a cluster, and how one of these CTAs merges them.
#pragma once
#include "merge/partial.cuh"

// The most CTAs of a cluster on every GPU that has clusters.
constexpr int CLUSTER_CTAS = 8;
#include "arch/cluster.cuh"

// CTAs of this launch's clusters; 1 without clusters.
inline unsigned cluster_ctas() {
  unsigned ctas;
  asm("mov.u32 %0, %%cluster_nctaid.x;" : "=r"(ctas));
  return ctas;
}

// The partials of a Q tile's rows: those of every CTA lie at the same offset of its shared memory.
struct ClusterPartials {
  static constexpr int PITCH = (HEAD_DIM_VO + 31) / 32 * 32;  // floats from row to row

  float* o = nullptr;  // [TILE_ROWS][PITCH]; null: partials are in global memory
  float2* md = nullptr;  // [TILE_ROWS]: (row_max, row_sum)

  void store(const PartialRow& state, int row) const { store_partial(state, o + row * PITCH, md + row); }
  PartialRow load(unsigned rank, int row) const {
    const float* sums = of_cta(o, rank) + row * PITCH;
    return load_partial([&](int dim) { return sums + dim; }, of_cta(md, rank) + row);
  }
};
