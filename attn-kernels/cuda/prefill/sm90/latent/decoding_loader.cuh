// Loads tiles of keys whose rows are fp8 or of a KV format: by threads of the producer, as 16-bit elements. The CTAs of
// a cluster, two, have the same tiles; each decodes half of the rows, and writes them to both (FlashMLA).
#pragma once
#include "arch/cluster_async.cuh"
#include "memory/address.cuh"
#include "memory/smem_tile.cuh"
#include "prefill/sm90/latent/dense_rows.cuh"

// DIM columns from column FIRST on, in the thread layout of KvTiledCopy.
template <int DIM, int FIRST>
class DecodingLoader {
  using Columns = SmemTile<TILE_KEYS, DIM>;
  static constexpr int PANELS = (DIM + 63) / 64;
  // Those of this CTA.
  static constexpr int PASSES = KvTiledCopy::PASSES / CLUSTER_CTAS;
  static_assert(CLUSTER_CTAS <= 2, "a CTA has one other");
  const KernelParams* p_;
  const Variant* variant_;
  int base_;  // the token of position 0, for keys that are not in pages
  int head_;

  KvLocation row_of_pass(int pass, int end, int key, const KvRowLocation& own) const {
    int lane = pass * KvTiledCopy::ROWS_PER_WARP + threadIdx.x % 32 / 8;
    if constexpr (KV_PAGED)
      return {__shfl_sync(ALL_LANES, own.location.page, lane), __shfl_sync(ALL_LANES, own.location.slot, lane)};
    else if constexpr (Variant::HAS_KV_LIST)
      return {0, base_ + __shfl_sync(ALL_LANES, own.position, lane)};
    else
      return {0, base_ + min(key + pass * KvTiledCopy::ROWS_PER_PASS + KvTiledCopy::row(), end - 1)};
  }

 public:
  DecodingLoader(const KernelParams& p, const Variant& variant, const Request& request, int kv_head)
      : p_(&p), variant_(&variant), base_(KV_PAGED ? 0 : ragged_base(request)), head_(kv_head) {}

  static constexpr bool USES_TMA = false;
  // Threads that arrive at the full barrier: the one that commits the tile, and all that store rows.
  static constexpr int ARRIVALS = 1 + 32 * PRODUCER_WARPS;
  // What the other CTA writes.
  static constexpr unsigned BYTES = (CLUSTER_CTAS - 1) * PASSES * KvTiledCopy::ROWS_PER_PASS * DIM * 2;

  // This CTA's rows of a tile, as they are stored.
  struct Held {
    StoredRow rows[PASSES];
    StoredRow::Eight eights[PASSES][PANELS];
  };

  void fetch(Held& to, int end, int key, const KvRowLocation& own) const {
    fetch(to.rows, to.eights, first_pass(), end, key, own);
  }
  template <class To>
  void load(To to, unsigned barrier, Held& held) const {
    store(first_address(to), barrier, held.rows, held.eights, first_pass());
    commit(barrier);
  }
  template <class To>
  void load(To to, unsigned barrier, int end, int key, KvRowLocation own) const {
    constexpr int FITTING = StoredRow::AT_ONCE / PANELS, AT_ONCE = FITTING >= PASSES ? PASSES : FITTING >= 2 ? 2 : 1;
    static_assert(PASSES % AT_ONCE == 0, "passes are whole");
    unsigned first = first_address(to);
    int begin = first_pass();
#pragma unroll 1
    for (int pass = begin; pass < begin + PASSES; pass += AT_ONCE) {
      StoredRow rows[AT_ONCE];
      StoredRow::Eight eights[AT_ONCE][PANELS];
      fetch(rows, eights, pass, end, key, own);
      store(first, barrier, rows, eights, pass);
    }
    commit(barrier);
  }
  // Brings the row that this lane looked up into L2, a tile ahead of `load`: its latency is that of L2 then.
  void prefetch(int end, int key, const KvRowLocation& own) const {
    constexpr int ROWS = PASSES * KvTiledCopy::ROWS_PER_PASS;
    if (located_row() >= TILE_KEYS || (CLUSTER_CTAS > 1 && located_row() / ROWS != cluster_rank())) return;
    int position = Variant::HAS_KV_LIST ? own.position : min(key + located_row(), end - 1);
    StoredRow(*p_, *variant_, KV_PAGED ? own.location : KvLocation{0, base_ + position}, head_).prefetch();
  }
  static constexpr bool participates(bool) { return true; }
  static void arrive_empty(unsigned barrier) { mbarrier_arrive(barrier); }

 private:
  static int first_pass() { return cluster_rank() * PASSES; }
  // Where this thread's first eight of the first pass is.
  template <class To>
  static unsigned first_address(To to) {
    return Columns{to.base + FIRST / 64 * To::PANEL_BYTES}.at(KvTiledCopy::row(), KvTiledCopy::chunk());
  }

  template <int COUNT>
  void fetch(StoredRow (&rows)[COUNT], StoredRow::Eight (&eights)[COUNT][PANELS], int pass, int end, int key,
             const KvRowLocation& own) const {
#pragma unroll
    for (int i = 0; i < COUNT; ++i) {
      rows[i] = StoredRow(*p_, *variant_, row_of_pass(pass + i, end, key, own), head_);
      for_each_panel([&](int panel, int element) { eights[i][panel] = rows[i].load(element); });
    }
  }
  // Decodes rows, and stores them to all CTAs of the cluster.
  template <int COUNT>
  void store(unsigned first, unsigned barrier, StoredRow (&rows)[COUNT], StoredRow::Eight (&eights)[COUNT][PANELS],
             int pass) const {
    unsigned other_first = 0, other_barrier = 0;
    if constexpr (CLUSTER_CTAS > 1) {
      unsigned other = cluster_rank() ^ 1;
      other_first = shared_of_cta(first, other), other_barrier = shared_of_cta(barrier, other);
    }
    bool fits_f16 = true;
#pragma unroll
    for (int i = 0; i < COUNT; ++i)
      for_each_panel([&](int panel, int element) { fits_f16 &= rows[i].fits_f16(eights[i][panel], element); });
    auto store = [&](auto decoded) {
#pragma unroll
      for (int i = 0; i < COUNT; ++i)
        for_each_panel([&](int panel, int element) {
          unsigned at = (pass + i) * KvTiledCopy::ROWS_PER_PASS * 128 + panel * Columns::PANEL_BYTES;
          uint4 eight = decoded(rows[i], eights[i][panel], element);
          store_shared_16(first + at, eight);
          if constexpr (CLUSTER_CTAS > 1) store_async_16(other_first + at, eight, other_barrier);
        });
    };
    // one branch for all of them, since a branch for each would keep their instructions from overlapping
    if (fits_f16)
      store([](auto& row, auto& eight, int element) { return row.template decoded<true>(eight, element); });
    else
      store([](auto& row, auto& eight, int element) { return row.template decoded<false>(eight, element); });
  }
  static void commit(unsigned barrier) {
    fence_view_async_shared();
    mbarrier_arrive(barrier);
  }

  // Calls `f(panel, element)` for this thread's eights of a row. The last panel may be partial.
  template <class F>
  static void for_each_panel(F f) {
    int chunk = KvTiledCopy::chunk();
#pragma unroll
    for (int panel = 0; panel < PANELS; ++panel)
      if (panel < DIM / 64 || chunk < DIM % 64 / 8) f(panel, FIRST + 64 * panel + 8 * chunk);
  }
};
