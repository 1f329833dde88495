// The cp.async pipeline that brings K and V tiles from global into shared memory in decode.
//
// ROW_WARPS warps share a pipeline of STAGES stages, each with a tile of WARP_KEYS keys and their values. With one, as
// in all kernels on tensor cores, a warp owns its keys and never waits for another warp. On CUDA cores the warps of
// prefill tiles share keys, and each has rows of its own.
#pragma once

#include "memory/half_row.cuh"
#include "schedule/kv_load_iter.cuh"
#include "merge/partial.cuh"
#include "decode/async_copy.cuh"
#include "decode/dense_rows.cuh"

constexpr int THREADS = WARPS * 32;
constexpr int KEY_WARPS = WARPS / ROW_WARPS;  // pipelines of the CTA, each with keys of its own
static_assert(STEP_KEYS == KEY_WARPS * WARP_KEYS, "a step of the CTA is one of every pipeline");
static_assert(ROW_WARPS == 1 || KEY_WARPS == 1, "warps that share a pipeline synchronise as a CTA");
static_assert(!V_SHARES_K || !(Variant::HAS_KEY_TRANSFORM || Variant::HAS_VALUE_TRANSFORM),
              "K and V cannot share rows that a hook rewrites");

// The K and V tiles of a warp's step, as the products read them: after the K and V transforms, if there are any.
using WarpSmemK = RowTile<KeyElem, WARP_KEYS, HEAD_DIM_QK>;
using WarpSmemV = RowTile<ValueElem, WARP_KEYS, V_SHARES_K ? HEAD_DIM_QK : HEAD_DIM_VO>;
// Rows that have a buffer of their own after the transforms, beside the stages: K, then V.
constexpr int WIDENED_K_BYTES = WIDEN_KEYS ? WarpSmemK::BYTES : 0;
constexpr int WIDENED_V_BYTES = WIDEN_VALUES ? WarpSmemV::BYTES : 0;

// A stage of the pipeline.
struct KvStage : StoredStage {
  unsigned widened;  // shared address of the buffer

  WarpSmemK keys() const { return {WIDEN_KEYS ? widened : stored_keys().base}; }
  WarpSmemV values() const {
    if constexpr (V_SHARES_K) return {keys().base};
    return {WIDEN_VALUES ? widened + WIDENED_K_BYTES : stored_values().base};
  }
};

class KvPipeline {
  using StoredSmemK = StoredStage::Keys;
  using StoredSmemV = StoredStage::Values;
  static constexpr int STAGE_BYTES = StoredStage::BYTES;
  static constexpr int WIDENED_BYTES = WIDENED_K_BYTES + WIDENED_V_BYTES;
  static constexpr int PIPELINE_BYTES = STAGES * STAGE_BYTES + WIDENED_BYTES;
  static_assert(WARP_KEYS <= 32 && 32 % WARP_KEYS == 0, "a lane looks up one key");
  // Keys of a run that is contiguous in memory (KvStep::contiguous).
  static constexpr int RUN = WARP_KEYS < 16 ? WARP_KEYS : 16;

  // How warps copy rows: LANES lanes copy a row, a chunk each, in as many passes as the row needs.
  template <class Tile>
  struct RowCopyLayout {
    static constexpr int CHUNK_BYTES = Tile::ROW_BYTES % 16 == 0 ? 16 : 8;
    static constexpr int CHUNKS = Tile::ROW_BYTES / CHUNK_BYTES;
    static constexpr int lanes() {
      int lanes = 2;
      while (lanes < 32 && (lanes < CHUNKS || 32 / lanes * ROW_WARPS > RUN)) lanes *= 2;
      return lanes;
    }
    static constexpr int LANES = lanes();
    static constexpr int ROWS_PER_INSTRUCTION = 32 / LANES * ROW_WARPS;
    static_assert(RUN % ROWS_PER_INSTRUCTION == 0, "a run is copied by whole instructions");
    static unsigned chunk() { return threadIdx.x % LANES; }
    // The row that this lane copies with the first instruction.
    static int row() { return threadIdx.x % (32 * ROW_WARPS) / LANES; }
  };

  const KernelParams& p_;
  AsyncCopy chunks_;
  const char* k_;  // this lane's first chunk of this head, at page 0, slot 0
  const char* v_;
  SideData sides_;
  unsigned stages_;  // shared address of this warp's stages

 public:
  static constexpr int BYTES = KEY_WARPS * PIPELINE_BYTES;

  KvPipeline(const KernelParams& p, int kv_head, unsigned shared)
      : p_(p),
        chunks_(p),
        k_(first_chunk<StoredSmemK>(p.k, kv_head)),
        v_(first_chunk<StoredSmemV>(p.v, kv_head)),
        sides_(p, kv_head),
        stages_(shared + key_warp() * PIPELINE_BYTES) {}

  // Index of this warp's pipeline, and of its first key within a step of the CTA.
  static int key_warp() { return threadIdx.x / (32 * ROW_WARPS); }
  static int first_key() { return key_warp() * WARP_KEYS; }

  // Issues the copies of a step into a stage. `location`: that of the key which this lane looked up.
  void load_stage(int i, KvStep step, KvLocation location) const {
    copy_rows(stage(i).stored_keys(), k_, p_.k, step, location);
    if constexpr (!V_SHARES_K) copy_rows(stage(i).stored_values(), v_, p_.v, step, location);
    sides_.copy_keys(stage(i), p_, location, chunks_);
    if constexpr (!V_SHARES_K) sides_.copy_values(stage(i), p_, location, chunks_);
  }

  KvStage stage(int i) const { return {{stages_ + i * STAGE_BYTES}, stages_ + STAGES * STAGE_BYTES}; }

  // A stage into which no copy is in flight serves as scratch memory, or the buffer of widened rows.
  static constexpr bool SCRATCH_IS_WIDENED = STAGES_ARE_SHORT && WIDENED_BYTES >= STAGE_BYTES;
  static constexpr int STAGE_SCRATCH_BYTES = SCRATCH_IS_WIDENED ? WIDENED_BYTES : STAGE_BYTES;
  static constexpr int stage_scratch_offset(int key_warp, int stage) {
    return key_warp * PIPELINE_BYTES + (SCRATCH_IS_WIDENED ? STAGES : stage) * STAGE_BYTES;
  }

 private:
  template <class Tile>
  static const char* first_chunk(const Strided& t, int kv_head) {
    using C = RowCopyLayout<Tile>;
    return reinterpret_cast<const char*>(static_cast<const KvElem*>(t.data) + kv_head * t.head) +
           C::chunk() * C::CHUNK_BYTES;
  }

  template <class Tile>
  void copy_rows(Tile to, const char* data, const Strided& t, KvStep step, KvLocation location) const {
    using C = RowCopyLayout<Tile>;
    int row = C::row();
    unsigned chunk = Tile::offset(row, C::chunk() * C::CHUNK_BYTES);
    long long offset = key_offset<KV_PAGED>(t, location) * static_cast<int>(sizeof(KvElem));
    if (COPIES_RUNS && step.contiguous) {
      // a contiguous run: the location of the first key gives all the others
      long long stride = t.token * static_cast<int>(sizeof(KvElem));
#pragma unroll
      for (int first = 0; first < WARP_KEYS; first += RUN) {
        const char* from = data + __shfl_sync(ALL_LANES, offset, first) + row * stride;
#pragma unroll
        for (int i = first; i < first + RUN; i += C::ROWS_PER_INSTRUCTION) {
          copy_row(to, chunk, i, from);
          from += C::ROWS_PER_INSTRUCTION * stride;
        }
      }
    } else {
#pragma unroll COPIES_UNROLLED
      for (int i = 0; i < WARP_KEYS; i += C::ROWS_PER_INSTRUCTION)
        copy_row(to, chunk, i, data + __shfl_sync(ALL_LANES, offset, row + i));
    }
  }

  // Copies this lane's chunks of the row that lies `rows` below the lane's first row.
  template <class Tile>
  void copy_row(Tile to, unsigned chunk, int rows, const char* from) const {
    using C = RowCopyLayout<Tile>;
#pragma unroll
    for (int first = 0; first < C::CHUNKS; first += C::LANES)
      if (first + C::LANES <= C::CHUNKS || first + C::chunk() < C::CHUNKS)
        chunks_.copy<C::CHUNK_BYTES>(to.advance(chunk, rows, C::CHUNK_BYTES * first), from + C::CHUNK_BYTES * first);
  }
};
