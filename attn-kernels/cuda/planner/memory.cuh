// Scratch memory of the planner kernel: in shared memory, or in the workspace if the capacity is too large for that.
// attn-kernels/src/launch/planner_scratch.rs computes its size.
#pragma once
#include "lang/math.cuh"
#include "planner/params.cuh"

// A cost, or a position on the stream-K line of all tiles.
using Cost = unsigned long long;

// A number, or the largest int.
inline int clamped(Cost n) { return static_cast<int>(min(n, Cost(0x7fffffff))); }

// Where a worker begins: a tile and a block of keys, counted from the tile's first visible block.
struct Cut {
  unsigned tile;
  unsigned block;
};

// A KV split that begins at a cut within a tile.
struct TileSplit {
  unsigned tile;
  unsigned block;
  int merge;  // the number of cut tiles before it
  int pad;
};

// Where the line of all tiles is cut.
struct LineCuts {
  TileSplit* splits;       // [cuts within tiles + 1]; the last belongs to no tile
  Cost* ends;              // [tiles] positions on the line where tiles end
  Cut* cuts;               // [workers + 1]; the last is where the last worker ends
  int* first_items;        // [workers + 1] first item of each worker; the last is one past all items
  int* first_splits;       // [cut tiles + 1] indices into `splits`
  unsigned* used_workers;  // workers that have a share of the line

  // The splits of a cut tile.
  int splits_of(int cut_tile) const { return first_splits[cut_tile + 1] - first_splits[cut_tile] + 1; }
};

// Items are loaded and stored as 16-byte words.
constexpr int ITEM_WORDS = sizeof(WorkItem) / sizeof(int4);
constexpr int START_WORDS = sizeof(WorkerStart) / sizeof(int4);
constexpr int MERGE_WORDS = sizeof(MergeItem) / sizeof(int4);
inline WorkItem load_item(const int4* from) {
  WorkItem item;
  int* words = reinterpret_cast<int*>(&item);
#pragma unroll
  for (int i = 0; i < ITEM_WORDS; ++i, words += 4) {
    int4 four = from[i];
    words[0] = four.x, words[1] = four.y, words[2] = four.z, words[3] = four.w;
  }
  return item;
}
inline void store_item(int4* to, const WorkItem& item) {
  const int* words = reinterpret_cast<const int*>(&item);
#pragma unroll
  for (int i = 0; i < ITEM_WORDS; ++i, words += 4) to[i] = make_int4(words[0], words[1], words[2], words[3]);
}

struct PlannerScratch : LineCuts {
  int4* tiles;  // [tiles] items whose kv_begin and kv_end count blocks: the visible ones

  PlannerScratch(void* base, const PlanParams& p) {
    unsigned entries = p.max_workers + 1;
    tiles = static_cast<int4*>(base);
    splits = reinterpret_cast<TileSplit*>(tiles + ITEM_WORDS * p.capacity_items);
    ends = reinterpret_cast<Cost*>(splits + entries);
    cuts = reinterpret_cast<Cut*>(ends + p.capacity_items);
    first_items = reinterpret_cast<int*>(cuts + entries);
    first_splits = first_items + entries;
    used_workers = reinterpret_cast<unsigned*>(first_splits + entries);
  }
};
