// What the kernel that plans writes down on the way: in shared memory, or where the batch may be larger than that in the workspace.
// Its size is told by attn-kernels/src/launch/plan_abi.rs.
#pragma once
#include "lang/math.cuh"
#include "planner/params.cuh"

// Units of cost, or a place on the line of all tiles.
using Cost = unsigned long long;

// Where a worker begins: a block of a tile, counted from the first that the tile sees.
struct Cut {
  unsigned tile;
  unsigned block;
};

// What begins behind a cut within a tile.
struct Piece {
  unsigned tile;
  unsigned block;
  int merge;  // the tile's: how many tiles before it are cut
  int pad;
};

// Items are moved in words of 16 bytes.
inline WorkItem load_item(const int4* from) {
  int4 a = from[0], b = from[1], c = from[2];
  return {a.x, a.y, a.z, a.w, b.x, b.y, b.z, b.w, c.x, c.y, c.z, c.w};
}
inline void store_item(int4* to, const WorkItem& item) {
  to[0] = make_int4(item.request, item.first_row, item.rows, item.kv_begin);
  to[1] = make_int4(item.kv_end, item.partial, item.merge, item.qo_token);
  to[2] = make_int4(item.qo_len, item.kv_token, item.kv_len, item.page);
}

struct PlanMemory {
  int4* tiles;         // [tiles] items, with blocks for keys: of the first to one past the last that the tile sees
  Piece* pieces;       // [cuts within tiles], and one more of no tile
  Cost* ends;          // [tiles] where they end on the line
  Cut* cuts;           // [workers + 1]; the last is where the last worker ends
  int* firsts;         // [workers + 1] first items of workers; the last is one past all
  int* first_pieces;   // [merges + 1] into `pieces`
  unsigned* used;      // workers that have a share of the line

  PlanMemory(void* base, const PlanParams& p) {
    unsigned entries = p.workers_most + 1;
    tiles = static_cast<int4*>(base);
    pieces = reinterpret_cast<Piece*>(tiles + 3 * p.room_items);
    ends = reinterpret_cast<Cost*>(pieces + entries);
    cuts = reinterpret_cast<Cut*>(ends + p.room_items);
    firsts = reinterpret_cast<int*>(cuts + entries);
    first_pieces = firsts + entries;
    used = reinterpret_cast<unsigned*>(first_pieces + entries);
  }
};
