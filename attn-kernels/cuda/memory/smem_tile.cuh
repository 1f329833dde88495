// The shared memory tiles of prefill (smem_q, smem_k, smem_v) in the 128-byte swizzle, and the cp.async copy that
// brings rows of K and V into them where TMA does not.
#pragma once
#include "memory/address.cuh"
#include "arch/ptx.cuh"
#include "memory/row.cuh"
#include "schedule/kv_range.cuh"

constexpr int THREADS = 32 * WARPS;

// ROWS rows of DIM 16-bit elements, in panels of 64 elements (128 bytes a row); the last panel may be partial. Within a
// row of a panel the eight 16-byte chunks are swizzled by row % 8, so that the eight rows that ldmatrix reads at once
// lie in different banks.
template <int ROWS, int DIM>
struct SmemTile {
  static constexpr int PANEL_BYTES = ROWS * 128;
  static constexpr int BYTES = (DIM + 63) / 64 * PANEL_BYTES;

  unsigned base;

  // Address of 16-byte chunk `chunk` of a row.
  unsigned at(int row, int chunk) const {
    return base + (chunk / 8) * PANEL_BYTES + row * 128 + (((chunk ^ row) & 7) << 4);
  }
  // The swizzle is an exclusive or, so all of a lane's addresses derive from one with at most one instruction each.
  // Moves by `chunk` chunks (even) from chunk 0 or 1 of a row.
  static unsigned advance_chunks(unsigned first, int chunk) {
    return (first ^ ((chunk & 7) << 4)) + (chunk / 8) * PANEL_BYTES;
  }
  // Moves by `rows` rows from a row below a power of two that divides `rows`.
  static unsigned advance_rows(unsigned first, int rows) { return (first ^ ((rows & 7) << 4)) + rows * 128; }
};

using SmemQ = SmemTile<TILE_ROWS, HEAD_DIM_QK>;
// E4M3_COMPUTE: pairs of e4m3 elements; V is transposed, and has eight rows of ones at its end.
using SmemK = SmemTile<TILE_KEYS, E4M3_COMPUTE ? HEAD_DIM_QK / 2 : HEAD_DIM_QK>;
// With V_SHARES_K the values are the first elements of the rows of K.
using SmemV = SmemTile<E4M3_COMPUTE ? HEAD_DIM_VO + 8 : TILE_KEYS, E4M3_COMPUTE ? TILE_KEYS / 2
                                                                   : V_SHARES_K ? HEAD_DIM_QK
                                                                                : HEAD_DIM_VO>;

// A thread's number among those that copy keys and values, which are all of the CTA's or its last warps.
inline unsigned producer_thread() { return threadIdx.x - FIRST_PRODUCER_THREAD; }

// The thread layout of the K/V copy: eight neighbouring lanes copy a row, a panel (128 bytes) at a time, so that what
// depends on the row is computed once for all of its panels.
struct KvTiledCopy {
  static constexpr int ROWS_PER_WARP = 4;
  static constexpr int ROWS_PER_PASS = ROWS_PER_WARP * PRODUCER_WARPS;
  static constexpr int PASSES = TILE_KEYS / ROWS_PER_PASS;
  static_assert(PASSES * ROWS_PER_PASS == TILE_KEYS && ROWS_PER_PASS % 8 == 0, "passes are whole, and keep row % 8");

  static int chunk() { return threadIdx.x % 8; }
  // This thread's row in the first pass.
  static int row() { return producer_thread() / 8; }

  // Copies this thread's part of a row of the given pass.
  template <int DIM>
  static void copy_row(SmemTile<TILE_KEYS, DIM> to, int pass, const char* row) {
    unsigned shared = to.at(KvTiledCopy::row(), chunk()) + pass * ROWS_PER_PASS * 128;
#pragma unroll
    for (int panel = 0; panel < (DIM + 63) / 64; ++panel)
      if (panel < DIM / 64 || chunk() < DIM % 64 / 8) cp_async_16(shared + panel * to.PANEL_BYTES, row + panel * 128);
  }
};

// The key that this lane looked up for its warp.
struct KvRowLocation {
  int position;
  KvLocation location;  // only if KEYS_PAGED
  int listed;           // only with a list of keys: the position, or -1 where there is no such key
  // Of a box of listed keys (prefill/sm90/listed_keys.cuh): those that exist, and whether all boxes of the tile are
  // whole, or the request ends within one.
  int keys = 0;
  bool full = false, cut = false;
};

// KEYS_PAGED: the mainloop reads keys or values from pages. KEYS_NEED_LOOKUP: locating a key reads the page table or a
// list of keys.
constexpr bool KEYS_PAGED = KV_PAGED && !(K_PREPROCESSED && (V_PREPROCESSED || V_SHARES_K));
constexpr bool KEYS_NEED_LOOKUP = KEYS_PAGED || Variant::HAS_KV_LIST;

// The row of a tile that this lane looks up for its warp; it may be past the last one.
inline int located_row() {
  static_assert(TILE_KEYS / PRODUCER_WARPS <= 32, "a warp looks up one row per lane");
  int lane = threadIdx.x % 32;
  int pass = lane / KvTiledCopy::ROWS_PER_WARP;
  return pass * KvTiledCopy::ROWS_PER_PASS + producer_thread() / 32 * KvTiledCopy::ROWS_PER_WARP +
         lane % KvTiledCopy::ROWS_PER_WARP;
}

// Locates this lane's row of the tile at `first_key`: one look-up, made well before the copy needs it.
template <class Range>
inline KvRowLocation locate_row(const KernelParams& p, const Request& request, const Range& kv_range, int first_key) {
  KvRowLocation found = {};
  found.listed = kv_range.position(first_key + located_row());
  found.position = kv_range.clamp(found.listed);
  if constexpr (KEYS_PAGED) found.location = locate_key<true>(p, request, page_table_row(p, request), found.position);
  return found;
}

// With a list of keys: tells all warps the positions of a tile's keys.
inline void store_position(int* positions, const KvRowLocation& row) {
  if (Variant::HAS_KV_LIST && located_row() < TILE_KEYS) positions[located_row()] = row.listed;
}

// Copies tiles of keys (or values) of one request and KV head with cp.async. The host guarantees that the strides of a
// token and of a page are below 2^31 bytes, so that an address costs a 32-bit multiplication.
template <bool PAGED>
class KvTileLoader {
  const char* data_;  // this lane's chunk of the request's first key, or of page 0, slot 0
  int token_;
  int page_;

 public:
  // `base`: the token of position 0, for keys that are not in pages.
  KvTileLoader(const Strided& t, int base, int kv_head)
      : data_(static_cast<const char*>(t.data) + 2 * ((PAGED ? 0 : base * t.token) + kv_head * t.head) +
              16 * KvTiledCopy::chunk()),
        token_(static_cast<int>(2 * t.token)),
        page_(static_cast<int>(2 * t.page)) {
    keep_in_register(data_);
  }

  // `own`: the result of locate_row for this lane, if KEYS_NEED_LOOKUP.
  template <int DIM, class Range>
  void copy(SmemTile<TILE_KEYS, DIM> to, const Range& kv_range, int first_key, KvRowLocation own) const {
    long long own_offset =
        PAGED ? static_cast<long long>(own.location.page) * page_ + static_cast<long long>(own.location.slot) * token_
              : static_cast<long long>(own.position) * token_;
#pragma unroll
    for (int pass = 0; pass < KvTiledCopy::PASSES; ++pass) {
      long long offset;
      if constexpr (PAGED || Variant::HAS_KV_LIST)
        offset = __shfl_sync(ALL_LANES, own_offset, pass * KvTiledCopy::ROWS_PER_WARP + threadIdx.x % 32 / 8);
      else
        offset =
            static_cast<long long>(kv_range.clamp(first_key + pass * KvTiledCopy::ROWS_PER_PASS + KvTiledCopy::row())) *
            token_;
      KvTiledCopy::copy_row(to, pass, data_ + offset);
    }
  }
};
