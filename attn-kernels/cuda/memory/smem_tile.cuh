// Tiles of rows in shared memory, and how the CTA copies keys and values into them.
#pragma once
#include "memory/address.cuh"
#include "arch/ptx.cuh"
#include "memory/row.cuh"
#include "schedule/kv_range.cuh"

constexpr int THREADS = 32 * WARPS;

// ROWS rows of DIM 16-bit elements. Panels of 64 elements, 128 bytes a row, the last perhaps not full; within a row of a panel the eight 16-byte
// chunks are permuted by row % 8, so that the eight rows which ldmatrix reads at once lie in different banks.
template <int ROWS, int DIM>
struct SharedTile {
  static constexpr int PANEL_BYTES = ROWS * 128;
  static constexpr int BYTES = (DIM + 63) / 64 * PANEL_BYTES;

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

using QueryTileRows = SharedTile<TILE_ROWS, HEAD_DIM>;
using KeyTile = SharedTile<TILE_KEYS, HEAD_DIM>;
// Where values are the first elements of the keys, the tile of keys.
using ValueTile = SharedTile<TILE_KEYS, VALUES_OF_KEYS ? HEAD_DIM : VALUE_DIM>;

// A thread's number among those that copy keys and values, which are all of the CTA's or its last warps.
inline unsigned copy_thread() { return threadIdx.x - FIRST_COPY_THREAD; }

// How the CTA copies the rows of keys and values: eight neighbouring lanes take a row, a panel (128 bytes) at a time, so that
// whatever depends on the row is computed once for all of its panels.
struct KeyRows {
  static constexpr int ROWS_PER_WARP = 4;
  static constexpr int ROWS_PER_PASS = ROWS_PER_WARP * COPY_WARPS;
  static constexpr int PASSES = TILE_KEYS / ROWS_PER_PASS;
  static_assert(PASSES * ROWS_PER_PASS == TILE_KEYS && ROWS_PER_PASS % 8 == 0, "passes are whole, and keep row % 8");

  static int chunk() { return threadIdx.x % 8; }
  // This thread's row in the first pass.
  static int row() { return copy_thread() / 8; }

  // Copies this thread's part of a row of the given pass.
  template <int DIM>
  static void copy_row(SharedTile<TILE_KEYS, DIM> to, int pass, const char* row) {
    unsigned shared = to.at(KeyRows::row(), chunk()) + pass * ROWS_PER_PASS * 128;
#pragma unroll
    for (int panel = 0; panel < (DIM + 63) / 64; ++panel)
      if (panel < DIM / 64 || chunk() < DIM % 64 / 8) copy_async_16(shared + panel * to.PANEL_BYTES, row + panel * 128);
  }
};

// A key that this lane looked up.
struct FoundRow {
  int position;
  KeyPlace place;  // in the pool, where keys or values are read from one
};

// Whether finding a key takes a look-up, in the page table or in a list.
constexpr bool KEYS_IN_POOL = KV_PAGED && !(KEY_PRE_PASS && (VALUE_PRE_PASS || VALUES_OF_KEYS));
constexpr bool KEYS_LOOKED_UP = KEYS_IN_POOL || Variant::HAS_KV_LIST;

// Where one of this warp's rows of the tile at `first_key` is: a look-up a lane, made well before the copy needs it.
// `positions`: under a list, takes the positions of the tile's keys, or -1 for one that does not exist.
template <class Span>
inline FoundRow find_row(const KernelParams& p, const Request& request, const Span& span, int first_key, int* positions) {
  static_assert(TILE_KEYS / COPY_WARPS <= 32, "a warp looks up one row a lane");
  int lane = threadIdx.x % 32;
  int pass = lane / KeyRows::ROWS_PER_WARP;
  int row = pass * KeyRows::ROWS_PER_PASS + copy_thread() / 32 * KeyRows::ROWS_PER_WARP + lane % KeyRows::ROWS_PER_WARP;
  FoundRow found = {};
  int position = span.position(first_key + row);
  if constexpr (Variant::HAS_KV_LIST)
    if (row < TILE_KEYS) positions[row] = position;
  found.position = span.existing(position);
  if constexpr (KEYS_IN_POOL) found.place = find_key<true>(p, request, page_row(p, request), found.position);
  return found;
}

// Copies keys (or values) of one request and KV head, a tile at a time, in the background. Strides in bytes, of a token and
// of a page, are below 2^31, which the host sees to: an address costs a multiplication of 32 bits.
template <bool PAGED>
class KeyTileCopy {
  const char* data_;  // this lane's chunk of the request's first key, or of page 0, slot 0
  int token_;
  int page_;

 public:
  // `base`: of keys that are not in pages, the token of position 0.
  KeyTileCopy(const Strided& t, int base, int kv_head)
      : data_(static_cast<const char*>(t.data) + 2 * ((PAGED ? 0 : base * t.token) + kv_head * t.head) +
              16 * KeyRows::chunk()),
        token_(static_cast<int>(2 * t.token)),
        page_(static_cast<int>(2 * t.page)) {
    keep_in_register(data_);
  }

  // `mine`: what find_row gave this lane, where keys are looked up.
  template <int DIM, class Span>
  void copy(SharedTile<TILE_KEYS, DIM> to, const Span& span, int first_key, FoundRow mine) const {
    long long my_offset = PAGED ? static_cast<long long>(mine.place.page) * page_ + static_cast<long long>(mine.place.slot) * token_
                                : static_cast<long long>(mine.position) * token_;
#pragma unroll
    for (int pass = 0; pass < KeyRows::PASSES; ++pass) {
      long long offset;
      if constexpr (PAGED || Variant::HAS_KV_LIST)
        offset = __shfl_sync(ALL_LANES, my_offset, pass * KeyRows::ROWS_PER_WARP + threadIdx.x % 32 / 8);
      else
        offset = static_cast<long long>(span.existing(first_key + pass * KeyRows::ROWS_PER_PASS + KeyRows::row())) * token_;
      KeyRows::copy_row(to, pass, data_ + offset);
    }
  }
};
