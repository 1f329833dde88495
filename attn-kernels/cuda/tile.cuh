// Tiles of rows in shared memory, and how the CTA copies keys and values into them.
#pragma once
#include "address.cuh"
#include "ptx.cuh"
#include "rows.cuh"

constexpr int THREADS = 32 * WARPS;

// ROWS rows of HEAD_DIM 16-bit elements. Panels of 64 elements, 128 bytes a row; within a row of a panel the eight 16-byte
// chunks are permuted by row % 8, so that the eight rows which ldmatrix reads at once lie in different banks.
template <int ROWS>
struct SharedTile {
  static constexpr int PANEL_BYTES = ROWS * 128;
  static constexpr int BYTES = ROWS * HEAD_DIM * 2;

  unsigned base;

  // Address of 16-byte chunk `chunk` of a row.
  unsigned at(int row, int chunk) const {
    return base + (chunk / 8) * PANEL_BYTES + row * 128 + (((chunk ^ row) & 7) << 4);
  }
  // The permutation is an exclusive or, so that all of a lane's addresses derive from one with an instruction or none:
  // `chunk` (even) further on from chunk 0 or 1 of a row,
  static unsigned right(unsigned first, int chunk) { return (first ^ ((chunk & 7) << 4)) + (chunk / 8) * PANEL_BYTES; }
  // and `rows` further down from a row below a power of two that divides `rows`.
  static unsigned down(unsigned first, int rows) { return (first ^ ((rows & 7) << 4)) + rows * 128; }
};

// How the CTA copies the rows of keys and values: eight neighbouring lanes take a row, a panel (128 bytes) at a time, so that
// whatever depends on the row is computed once for all of its panels.
struct KeyRows {
  static constexpr int ROWS_PER_WARP = 4;
  static constexpr int ROWS_PER_PASS = ROWS_PER_WARP * WARPS;
  static constexpr int PASSES = TILE_KEYS / ROWS_PER_PASS;
  static_assert(PASSES * ROWS_PER_PASS == TILE_KEYS && ROWS_PER_PASS % 8 == 0, "passes are whole, and keep row % 8");

  static int chunk() { return threadIdx.x % 8; }
  // This thread's row in the first pass.
  static int row() { return threadIdx.x / 8; }

  // Copies this thread's part of a row of the given pass.
  static void copy_row(SharedTile<TILE_KEYS> to, int pass, const char* row) {
    unsigned shared = to.at(KeyRows::row(), chunk()) + pass * ROWS_PER_PASS * 128;
#pragma unroll
    for (int panel = 0; panel < HEAD_DIM / 64; ++panel) copy_async_16(shared + panel * to.PANEL_BYTES, row + panel * 128);
  }
};

// Copies the TILE_KEYS keys (or values) of one request and KV head from `first_key` on, in the background. Keys past the span
// repeat its last one: the mask hides their logits, and their values stay finite (0 * NaN would not be 0).
template <bool PAGED>
class KeyTileCopy;

template <>
class KeyTileCopy<false> {
  const char* data_;  // this lane's chunk of the request's first key
  int stride_;        // bytes from key to key: one multiplication a row; the host sees to it that it fits

 public:
  KeyTileCopy(const KernelParams&, const Strided& t, const Request& request, int kv_head)
      : data_(static_cast<const char*>(t.data) + 2 * (request.kv_begin * t.token + kv_head * t.head) + 16 * KeyRows::chunk()),
        stride_(static_cast<int>(2 * t.token)) {
    keep_in_register(data_);
  }

  void find(const KernelParams&, const Request&, int, int) {}

  void copy(SharedTile<TILE_KEYS> to, const Strided&, int first_key, int kv_end) const {
#pragma unroll
    for (int pass = 0; pass < KeyRows::PASSES; ++pass) {
      int key = min(first_key + pass * KeyRows::ROWS_PER_PASS + KeyRows::row(), kv_end - 1);
      KeyRows::copy_row(to, pass, data_ + static_cast<long long>(key) * stride_);
    }
  }
};

// Paged: a lane looks up the page of one of its warp's rows, well before the copy, and hands it to the lanes that copy the row.
template <>
class KeyTileCopy<true> {
  static_assert(TILE_KEYS / WARPS <= 32, "a warp looks up one row a lane");
  const char* data_;  // this lane's chunk of page 0, slot 0
  KeyPlace place_;    // of this lane's row

 public:
  KeyTileCopy(const KernelParams&, const Strided& t, const Request&, int kv_head)
      : data_(static_cast<const char*>(t.data) + 2 * kv_head * t.head + 16 * KeyRows::chunk()) {
    keep_in_register(data_);
  }

  void find(const KernelParams& p, const Request& request, int first_key, int kv_end) {
    int lane = threadIdx.x % 32;
    int pass = lane / KeyRows::ROWS_PER_WARP;
    int row = pass * KeyRows::ROWS_PER_PASS + threadIdx.x / 32 * KeyRows::ROWS_PER_WARP + lane % KeyRows::ROWS_PER_WARP;
    place_ = find_key<true>(p, request, page_row(p, request), min(first_key + row, kv_end - 1));
  }

  void copy(SharedTile<TILE_KEYS> to, const Strided& t, int, int) const {
    long long mine = 2 * key_offset<true>(t, place_);
#pragma unroll
    for (int pass = 0; pass < KeyRows::PASSES; ++pass)
      KeyRows::copy_row(to, pass, data_ + __shfl_sync(ALL_LANES, mine, pass * KeyRows::ROWS_PER_WARP + threadIdx.x % 32 / 8));
  }
};
