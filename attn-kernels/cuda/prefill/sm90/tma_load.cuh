// Loads Q, K and V tiles into shared memory: by TMA with tensor maps, or K and V row by row with cp.async where a page
// is smaller than a TMA box.
#pragma once
#include "arch/mbarrier.cuh"
#include "memory/smem_tile.cuh"
#include "softmax/score_element.cuh"

// TMA load of a box: rows of 64 elements with 128-byte swizzle, as in `SmemTile`; elements outside of the tensor become
// 0. Completion is counted in bytes on `barrier`.
inline void tma_load(unsigned shared, const TensorMap& map, unsigned barrier, int column, KvLocation location,
                     int head) {
  asm volatile(
      "cp.async.bulk.tensor.4d.shared::cluster.global.mbarrier::complete_tx::bytes "
      "[%0], [%1, {%2, %3, %4, %5}], [%6];" ::"r"(shared),
      "l"(&map), "r"(column), "r"(location.slot), "r"(head), "r"(location.page), "r"(barrier)
      : "memory");
}

// TMA load of `bytes` bytes of a Q tile (PackGQA) whose first row is `first`, by one thread.
inline void tma_load_q(SmemQ to, const TensorMap& map, unsigned barrier, const RowIndex& first, int bytes) {
  mbarrier_arrive_expect_tx(barrier, bytes);
#pragma unroll
  for (int panel = 0; panel < to.BYTES / to.PANEL_BYTES; ++panel)
    tma_load(to.base + panel * to.PANEL_BYTES, map, barrier, 64 * panel, {0, first.qo_head}, first.qo_token);
}

// Whether rows of keys become 16-bit elements as they are loaded: those of 8 bits that no kernel has preprocessed.
constexpr bool KEYS_DECODED = IS_FP8<KvElem> && !K_PREPROCESSED && !E4M3_COMPUTE;
// Whether this launch loads K and V by TMA; known only at launch where keys are looked up. Those that are decoded are
// loaded row by row; listed ones too beside three consumer warpgroups, where the producer lacks registers for boxes.
constexpr bool MAY_USE_TMA = !KEYS_DECODED && !(Variant::HAS_KV_LIST && WARPS > 8);
// Whether threads hold a CTA's rows of a tile while they wait for its stage: registers suffice for those of a cluster.
constexpr bool ROWS_HELD = KEYS_DECODED && CLUSTER_CTAS > 1;
inline bool use_tma(const Sm90Params& w) { return MAY_USE_TMA && (!KEYS_NEED_LOOKUP || w.box_rows); }

// Half of the producer warps issue the TMA loads of K, the other half those of V, so that neither waits for a free
// stage of the other. Preparing a lane's operands takes most of the time, so that boxes alternate between the warps of
// a half.
constexpr int TMA_WARPS = PRODUCER_WARPS / 2;
static_assert(static_cast<int>(ProducerWarp::LOAD_K) == 0 && static_cast<int>(ProducerWarp::LOAD_V) == TMA_WARPS,
              "the first warp of each half commits tiles");
inline int tma_warp() { return producer_thread() / 32 % TMA_WARPS; }
inline bool loads_v() { return producer_thread() / 32 >= TMA_WARPS; }
// Where keys stay, or are listed, one warp of a half has all boxes: the other ones take work and load Q, and do not
// wait for stages of K and V.
constexpr bool ONE_WARP_LOADS = RESIDENT_KEYS || Variant::HAS_KV_LIST;
// The TMA box of a tile that this lane loads.
inline int lane_box() {
  int lane = threadIdx.x % 32;
  return ONE_WARP_LOADS ? 32 * tma_warp() + lane : tma_warp() + lane * TMA_WARPS;
}

// Clamps keys to below `last_end`: the part of a KV range's interface that cp.async loads need.
struct ClampedRange {
  int last_end;
  static int position(int key) { return key; }
  int end() const { return last_end; }
  int clamp(int key) const { return min(key, last_end - 1); }
};

// Looks up the page of this lane's TMA box, or row, of the tile at `key`.
template <bool USE_TMA, class Range>
inline KvRowLocation locate_tile_part(const KernelParams& p, const Sm90Params& w, const Request& request,
                                      const Range& kv_range, int key) {
  if constexpr (!USE_TMA) return locate_row(p, request, kv_range, key);
  int first = lane_box() * w.box_rows, position = key + first;
  KvRowLocation row = {position, {-1, 0}, 0};  // page -1 is outside of the tensor: zeros
  if (first < TILE_KEYS && position < kv_range.end())
    row.location = locate_key<true>(p, request, page_table_row(p, request), position);
  return row;
}

// Loads K or V tiles of one request and KV head by TMA: DIM columns from column FIRST on.
template <bool PAGED, int DIM, bool VALUES, int FIRST = 0>
class TmaLoader {
  using Columns = SmemTile<TILE_KEYS, DIM>;
  const TensorMap* map_;
  int rows_;  // keys of a box
  int base_;  // without pages: the token of position 0
  int head_;

 public:
  TmaLoader(const Sm90Params& w, const TensorMap& map, const Strided&, int base, int kv_head)
      : map_(&map), rows_(PAGED || Variant::HAS_KV_LIST ? w.box_rows : TILE_KEYS), base_(base), head_(kv_head) {}

  static constexpr bool USES_TMA = true;
  // Threads that arrive at the full barrier for a tile: the one that commits it.
  static constexpr int ARRIVALS = 1;
  // Bytes that the full barrier expects, and the 16-byte chunks of a row.
  static constexpr unsigned BYTES = Columns::BYTES;
  static constexpr int FIRST_CHUNK = FIRST / 8, END_CHUNK = (FIRST + DIM) / 8;

  template <class To>
  void load(To to, unsigned barrier, int, int key, KvRowLocation row) const {
    int first = lane_box() * rows_;
    if (first >= TILE_KEYS) return;
    KvLocation location = PAGED ? row.location : KvLocation{0, base_ + (Variant::HAS_KV_LIST ? row.position : key)};
    if (Variant::HAS_KV_LIST && row.keys == 0) location = {-1, 0};  // outside of the tensor: zeros
#pragma unroll
    for (int panel = FIRST / 64; panel < (FIRST + DIM + 63) / 64; ++panel)
      tma_load(to.base + panel * To::PANEL_BYTES + first * 128, *map_, barrier, 64 * panel, location, head_);
  }
  // Whether this warp takes part in loading a tile (`keys`: whether it has any). The first warp commits it; others have
  // boxes to load, or nothing to do. A warp that does not take part must not wait for a free stage: nothing waits for
  // that warp, so that the barrier may be a whole phase ahead.
  bool participates(bool keys) const {
    return loads_v() == VALUES && (tma_warp() == 0 || (!ONE_WARP_LOADS && keys && tma_warp() * rows_ < TILE_KEYS));
  }
  // Called instead of load for a tile without keys.
  static void arrive_empty(unsigned) {}
};

// The same row by row with cp.async.
template <bool PAGED, int DIM, int FIRST>
class CpAsyncLoader {
  const Strided* tensor_;
  int base_;
  int head_;

 public:
  CpAsyncLoader(const Sm90Params&, const TensorMap&, const Strided& t, int base, int kv_head)
      : tensor_(&t), base_(base), head_(kv_head) {}
  static constexpr bool USES_TMA = false;
  // A further arrival of each warp orders the positions of listed keys, which it has written.
  static constexpr int ARRIVALS = 1 + (32 + Variant::HAS_KV_LIST) * PRODUCER_WARPS;
  static constexpr unsigned BYTES = 0;

  template <class To>
  void load(To to, unsigned barrier, int end, int key, KvRowLocation row) const {
    Strided from = *tensor_;
    from.data = static_cast<char*>(from.data) + 2 * FIRST;
    SmemTile<TILE_KEYS, DIM> columns = {to.base + FIRST / 64 * To::PANEL_BYTES};
    // Rebuilt for each tile: registers are scarcer than instructions.
    KvTileLoader<PAGED>(from, base_, head_).copy(columns, ClampedRange{end}, key, row);
    cp_async_mbarrier_arrive(barrier);
    arrive_with_positions(barrier);
  }
  static constexpr bool participates(bool) { return true; }
  static void arrive_empty(unsigned barrier) {
    mbarrier_arrive(barrier);
    arrive_with_positions(barrier);
  }

 private:
  static void arrive_with_positions(unsigned barrier) {
    if constexpr (!Variant::HAS_KV_LIST) return;
    __syncwarp();
    if (threadIdx.x % 32 == 0) mbarrier_arrive(barrier);
  }
};

template <bool PAGED, bool USE_TMA, int DIM, bool VALUES, int FIRST = 0>
using TileLoader = Choose<USE_TMA || (!PAGED && !Variant::HAS_KV_LIST), TmaLoader<PAGED, DIM, VALUES, FIRST>,
                          CpAsyncLoader<PAGED, DIM, FIRST>>;
