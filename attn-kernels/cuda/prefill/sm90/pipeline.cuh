// The producer/consumer pipeline of sm_90 prefill: mbarriers k_full/k_empty and v_full/v_empty for STAGES K and V
// tiles, q_full/q_empty for Q tiles, and the work tiles in shared memory (CUTLASS PipelineTmaAsync, FlashAttention-3).
#pragma once
#include "arch/mbarrier.cuh"
#include "schedule/kv_tile_iter.cuh"
#include "schedule/q_tile.cuh"
#include "memory/smem_tile.cuh"

// Groups of rows, one per warpgroup, whose tiles are classified separately: where a tile has more rows than keys, so
// that a group may be fully masked, and the consumers take longer than the producer needs to classify more. Beside two
// warpgroups it lacks the registers over pages with transformed queries.
constexpr int PARTS =
    Variant::HAS_BOUNDS && TILE_KEYS < TILE_ROWS && !(WARPS == 8 && KV_PAGED && Variant::HAS_QUERY_TRANSFORM)
        ? WARPS / 4
        : 1;

// What the producer tells the consumers about a KV tile of the pipeline.
struct PipelineTile {
  static constexpr int LAST = 1, END = 2, FULL = 4, SKIP = FULL << PARTS;  // FULL and SKIP: one bit per part
  int key;  // its first key; -1: no keys, for an item without any
  int flags;

  PipelineTile() = default;
  PipelineTile(int key, int flags) : key(key), flags(flags) {}
  PipelineTile(int key, TileClasses classes, bool last)
      : key(key), flags(int(classes.full) * FULL | int(classes.skip) * SKIP | last * LAST) {}

  bool has_keys() const { return key >= 0; }
  bool last() const { return flags & LAST; }  // last tile of its work item
  bool end() const { return flags & END; }    // end of all work: not a tile
  // All elements of a part are unmasked; all are masked.
  bool full(int part) const { return flags & FULL << part; }
  bool skip(int part) const { return flags & SKIP << part; }
};

// A work item with its KV head.
struct WorkTile {
  WorkItem item;
  int kv_head;
};
// A work item in shared memory, copied and read 16 bytes at a time.
struct alignas(16) WorkItemWords {
  static constexpr int FOURS = sizeof(WorkItem) / 16;
  int words[4 * FOURS];
};
static_assert(sizeof(WorkItemWords) == sizeof(WorkItem), "an item is whole 16 bytes");
static_assert(!SHARED_ROWS, "load_work reads no segment of keys");

// Shared memory of the pipeline besides the tiles. A work item's slot may be overwritten: when item i is stored, the
// producer has committed all tiles of item i - 2, and at most STAGES tiles are not yet consumed. STAGES items of at
// least one tile each lie between the slot's old item and that one, so that all consumers have read the old item.
struct PipelineStorage {
  static constexpr int ITEMS = STAGES + 2;
  unsigned long long barriers[4 * STAGES + 2 * Q_STAGES + 2 * Variant::HAS_KV_LIST];
  PipelineTile tiles[STAGES];
  WorkItemWords items[ITEMS];
  int kv_heads[ITEMS];
  unsigned next_work[2];
};

// With a KV list: positions of the keys of tiles. A tile's slot is written again once all consumers have released K of
// the next tile, and so have computed P of this one.
inline int* listed_positions() {
  __shared__ int positions[(STAGES + 1) * TILE_KEYS];
  return positions;
}

// Stage and phase parity of the n-th tile of the CTA.
template <int COUNT>
struct StageState {
  int stage;
  unsigned phase;
  explicit StageState(int n) : stage(n % COUNT), phase(n / COUNT & 1) {}
};
// Of a KV tile, and of the Q tile of a work tile.
using PipelineState = StageState<STAGES>;
using QPipelineState = StageState<Q_STAGES>;

// When a consumer warpgroup releases the Q tile: once it has Q in registers, with the last tile of K, after S of the
// last tile, or after O has been stored over it.
enum class QRelease { ONCE_READ, WITH_LAST_K, AFTER_SCORES, AFTER_STORE };

class Pipeline {
  PipelineStorage* storage_;
  unsigned base_;

  unsigned barrier(int index) const { return base_ + 8 * index; }

 public:
  explicit Pipeline(PipelineStorage& storage) : storage_(&storage), base_(shared_address(storage.barriers)) {}

  // mbarriers: *_full completes when the producer has loaded a stage, *_empty when the consumers have released it, in a
  // cluster those of all CTAs.
  unsigned k_full(int stage) const { return barrier(stage); }
  unsigned v_full(int stage) const { return barrier(STAGES + stage); }
  unsigned k_empty(int stage) const { return barrier(2 * STAGES + stage); }
  unsigned v_empty(int stage) const { return barrier(3 * STAGES + stage); }
  unsigned q_full(int stage) const { return barrier(4 * STAGES + stage); }
  unsigned q_empty(int stage) const { return barrier(4 * STAGES + Q_STAGES + stage); }
  // With a KV list: of the warp that loads K, and of that of V, for tiles that it changes once they have arrived.
  unsigned cut_full(bool values) const { return barrier(4 * STAGES + 2 * Q_STAGES + values); }

  // By one thread. `*_arrivals`: threads that arrive at a full barrier for each tile.
  void init(int k_arrivals, int v_arrivals, int q_arrivals) const {
#pragma unroll
    for (int stage = 0; stage < STAGES; ++stage) {
      mbarrier_init(k_full(stage), k_arrivals);
      mbarrier_init(v_full(stage), v_arrivals);
      mbarrier_init(k_empty(stage), CLUSTER_CTAS * WARPS);
      mbarrier_init(v_empty(stage), CLUSTER_CTAS * WARPS);
    }
#pragma unroll
    for (int stage = 0; stage < Q_STAGES; ++stage) {
      mbarrier_init(q_full(stage), q_arrivals);
      mbarrier_init(q_empty(stage), WARPS);
    }
    if constexpr (Variant::HAS_KV_LIST) {
      mbarrier_init(cut_full(false), 1);
      mbarrier_init(cut_full(true), 1);
    }
    fence_barrier_init();
  }

  // By one thread, after producer_acquire (a wait for k_empty): publishes the tile's description, and expects `bytes`
  // bytes of K from TMA.
  void producer_commit(int stage, PipelineTile tile, unsigned bytes) const {
    volatile PipelineTile& slot = storage_->tiles[stage];
    slot.key = tile.key;
    slot.flags = tile.flags;
    mbarrier_arrive_expect_tx(k_full(stage), bytes);
  }
  // Waits until K of tile `n` is in shared memory.
  void consumer_wait(int n) const {
    PipelineState state(n);
    mbarrier_wait(k_full(state.stage), state.phase);
  }
  // Reads the description of tile `n`. Only lane 0 reads, because only lane 0 arrives at the empty barrier for the
  // warp: a read by another lane would not be ordered before the stage is reused.
  PipelineTile read_tile(int n) const {
    volatile PipelineTile& slot = storage_->tiles[PipelineState(n).stage];
    PipelineTile tile(0, 0);
    if (threadIdx.x % 32 == 0) {
      tile.key = slot.key;
      tile.flags = slot.flags;
    }
    return {__shfl_sync(ALL_LANES, tile.key, 0), __shfl_sync(ALL_LANES, tile.flags, 0)};
  }
  PipelineTile consumer_wait_tile(int n) const {
    consumer_wait(n);
    return read_tile(n);
  }

  // By one thread, once all tiles of the previous item but one are committed: starts copying the item to its slot. The
  // caller waits for the copy, and tells the others.
  void store_work(int work_index, const WorkItem& item, int kv_head) const {
    int n = work_index % PipelineStorage::ITEMS;
    unsigned shared = shared_address(storage_->items[n].words);
#pragma unroll
    for (int i = 0; i < WorkItemWords::FOURS; ++i)
      cp_async_16(shared + 16 * i, reinterpret_cast<const char*>(&item) + 16 * i);
    cp_async_commit();
    static_cast<volatile int*>(storage_->kv_heads)[n] = kv_head;
  }
  // Reads a work tile, by whole warps. Only lane 0 reads, for the same reason as in read_tile.
  WorkTile load_work(int work_index) const {
    int n = work_index % PipelineStorage::ITEMS;
    unsigned shared = shared_address(storage_->items[n].words);
    WorkItemWords loaded = {};
    int kv_head = 0;
    if (threadIdx.x % 32 == 0) {
#pragma unroll
      for (int i = 0; i < WorkItemWords::FOURS; ++i) {
        uint4 four = load_shared_16(shared + 16 * i);
        int* words = loaded.words + 4 * i;
        words[0] = four.x, words[1] = four.y, words[2] = four.z, words[3] = four.w;
      }
      kv_head = static_cast<volatile int*>(storage_->kv_heads)[n];
    }
    // The other fields are those of decode and of cascades. To read them would take registers of every warp.
    constexpr int WorkItem::*FIELDS[] = {
        &WorkItem::request, &WorkItem::first_row, &WorkItem::rows,     &WorkItem::kv_begin, &WorkItem::kv_end,
        &WorkItem::memory,  &WorkItem::partial,   &WorkItem::qo_token, &WorkItem::qo_len,   &WorkItem::kv_token,
        &WorkItem::kv_len};
    const WorkItem& item = reinterpret_cast<const WorkItem&>(loaded);
    WorkTile work = {};
#pragma unroll
    for (auto field : FIELDS) work.item.*field = __shfl_sync(ALL_LANES, item.*field, 0);
    if constexpr (MIXED) work.item.pass = __shfl_sync(ALL_LANES, item.pass, 0);
    work.kv_head = __shfl_sync(ALL_LANES, kv_head, 0);
    return work;
  }

  // With a KV list: positions of the keys of tile `n`.
  int* positions(int n) const {
    if constexpr (Variant::HAS_KV_LIST) return listed_positions() + n % (STAGES + 1) * TILE_KEYS;
    return nullptr;
  }

  // Within the producer: the index of the next work tile, written by the scheduler thread before the producer barrier.
  volatile unsigned& next_work(int work_index) const { return storage_->next_work[work_index % 2]; }
};
