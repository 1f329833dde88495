// What CTAs of all sm_90 prefill kernels have in common: they are persistent and warp-specialised. One producer
// warpgroup loads with TMA, two or three consumer warpgroups compute with WGMMA; CTA_THREADS threads, one CTA per SM.
// Each takes work tiles from the tile scheduler until there are none. A kernel has its `prepare_v_tiles`,
// `producer_loop` and `consumer_mainloop` before it includes this file.
#pragma once
#include "arch/cluster.cuh"
#include "prefill/sm90/smem_tiles.cuh"
#include "prefill/sm90/store.cuh"
#include "prefill/sm90/tma_load.cuh"

constexpr int CTA_THREADS = THREADS + 32 * PRODUCER_WARPS;
static_assert(PRODUCER_WARPS == 4, "one producer warpgroup");

// Shared memory of the pipeline. It is declared outside of the template below, since the emulator of the tests has
// shared memory in a section, where compilers of the host put no variable of a template.
inline PipelineStorage& pipeline_storage() {
  __shared__ PipelineStorage storage;
  return storage;
}

// `Q_TILES`: Q tiles that shared memory holds. Registers are those of a thread (setmaxnreg), multiples of eight.
template <int Q_TILES, int PRODUCER_REGISTERS, int CONSUMER_REGISTERS>
class PrefillCta {
  // Of a thread; the launch divides 64 K evenly.
  static constexpr int LAUNCH_REGISTERS = (64 * 1024 / CTA_THREADS) / 8 * 8;
  static_assert(
      CONSUMER_REGISTERS * THREADS + PRODUCER_REGISTERS * 32 * PRODUCER_WARPS <= LAUNCH_REGISTERS * CTA_THREADS,
      "otherwise setmaxnreg would wait forever");
  static constexpr int TILES_ALIGNMENT = 1024;

 public:
  static constexpr int V_BYTES = V_SHARES_K ? 0 : STAGES * SmemV::BYTES;
  // Shared memory: the Q tiles, then STAGES K tiles, STAGES V tiles, and the tile of O, or of P; aligned to 1024 bytes,
  // wherever the dynamic shared memory begins.
  static constexpr int SMEM_BYTES =
      TILES_ALIGNMENT + Q_TILES * SmemQ::BYTES + STAGES * SmemK::BYTES + V_BYTES + SMEM_O_BYTES + SMEM_P_BYTES;
  static constexpr int POSITION_BYTES = Variant::HAS_KV_LIST ? (STAGES + 1) * TILE_KEYS * sizeof(int) : 0;
  static_assert(SMEM_BYTES + sizeof(PipelineStorage) + POSITION_BYTES <= 227 * 1024,
                "shared memory of an SM: at most 227 KiB per CTA");

  // Runs the CTA. `shared_memory`: the dynamic shared memory.
  static void run(const KernelParams& p, const Variant& variant, const Sm90Params& w,
                  const unsigned char* shared_memory) {
    SmemTiles tiles;
    tiles.q.base = (shared_address(shared_memory) + TILES_ALIGNMENT - 1) / TILES_ALIGNMENT * TILES_ALIGNMENT;
    tiles.k.base = tiles.q.base + Q_TILES * SmemQ::BYTES;
    tiles.v.base = V_SHARES_K ? tiles.k.base : tiles.k.base + STAGES * SmemK::BYTES;
    tiles.p = tiles.k.base + STAGES * SmemK::BYTES + V_BYTES;
    tiles.o = OUTPUTS_STAGED ? tiles.p : tiles.q.base;
    Pipeline pipeline(pipeline_storage());
    bool tma = use_tma(w);
    if (threadIdx.x == 0) {
      int q_arrivals = w.use_tma_q ? 1 : 32 * PRODUCER_WARPS;
      if (tma)
        pipeline.init(KLoader<true>::ARRIVALS, VLoader<true>::ARRIVALS, q_arrivals);
      else
        pipeline.init(KLoader<false>::ARRIVALS, VLoader<false>::ARRIVALS, q_arrivals);
    }
    prepare_v_tiles(tiles);
    cluster_sync();  // before a CTA writes to the shared memory of another
    // shfl makes the value warp-uniform for ptxas
    if (__shfl_sync(ALL_LANES, static_cast<int>(threadIdx.x) / THREADS, 0)) {
      warpgroup_reg_dealloc<PRODUCER_REGISTERS>();
      if constexpr (!MAY_USE_TMA)
        producer_loop<false>(p, variant, w, tiles, pipeline);
      else if (tma)
        producer_loop<true>(p, variant, w, tiles, pipeline);
      else if constexpr (KEYS_NEED_LOOKUP)  // otherwise every load is TMA
        producer_loop<false>(p, variant, w, tiles, pipeline);
    } else {
      warpgroup_reg_alloc<CONSUMER_REGISTERS>();
      consumer_mainloop(p, variant, w, tiles, pipeline);
    }
    if constexpr (CLUSTER_CTAS > 1) cluster_sync();  // no CTA ends before the others have written to its memory
  }
};
