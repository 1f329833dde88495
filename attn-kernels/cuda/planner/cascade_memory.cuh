// Scratch memory of the planner kernel of cascades: in shared memory, or in the workspace if the capacity is too large
// for that. attn-kernels/src/launch/planner_scratch.rs computes its size.
#pragma once
#include "planner/params.cuh"
#include "planner/cascade_structs.cuh"
#include "planner/sort.cuh"
#include "planner/tile_splits.cuh"
#include "planner/worker_cuts.cuh"

// A request, and what is before it. The entry behind the last request has what all of them have.
struct CascadeRequest {
  int qo_token, queries, kv_token, keys;
  int first_unit;
  int active, decodes;  // requests with queries before it, and those of the decode part
  int last_level;       // with keys; -1: none
};

// A group: its segment or -1, and where its keys are in memory.
struct GroupStart {
  int segment, memory;
};

// Rows of neighbouring requests, all of which have the keys of a segment.
struct CascadeRows {
  int request, requests, first_row, rows;
  int first_unit, units;
};

// A tile of rows against the keys of a segment.
struct CascadeTile {
  CascadeRows rows;
  BlockRange visible;
  int level, segment;  // -1: of a request without keys
  int part_index;      // among the tiles of its part; those of the prefill part from `decode_items` on; -1: not run
  int partial;         // row of its first state; -1: it writes the output
  int splits;
};

struct CascadeScratch : LineCuts {  // of the decode part
  Cost* order;                      // [order_words] the ends on the line, then of the sort
  SortBuffers sort;                 // of items
  GroupStart* groups;               // [groups]
  SplitTile* tiles_of_parts;        // [tiles] visible blocks, and the number of the tile; as `part_index`
  TileStart* starts;                // [prefill workers, no more than tiles] of the prefill part, if any is cut
  CascadeRequest* requests;         // [requests + 1]
  KvSegment* segments;              // [segments]
  CascadeTile* tiles;               // [tiles]
  int* segment_of;                  // [levels][requests]; -1
  int* shared_part;                 // [segments] the part that runs the segment in shared tiles; -1: none does
  int* first_tiles;                 // [levels + 1][requests] tiles before; the last row is of requests without keys
  int* states_before;               // [levels][units] states of the level, then those of all levels before
  int* states;                      // [units] states, then the first entry in `merge_parts`
  int* merged_rows;                 // [units] 0: they are not merged

  static unsigned order_words(const CascadePlanParams& p) {
    unsigned items = p.capacity_items - p.decode_items, decodes = p.decode_items;
    return max(items + SORT_COUNTERS / 2, decodes);
  }

  CascadeScratch(void* shared, const CascadePlanParams& p) {
    unsigned workers = p.decode_workers + 1, starts_count = min(p.max_workers, static_cast<unsigned>(p.capacity_tiles));
    ends = order = p.order ? p.order : static_cast<Cost*>(shared);
    sort = {reinterpret_cast<unsigned*>(order), reinterpret_cast<unsigned*>(order + SORT_COUNTERS / 2)};
    splits = static_cast<TileSplit*>(p.scratch ? p.scratch : order + order_words(p));
    cuts = reinterpret_cast<Cut*>(splits + workers);
    groups = reinterpret_cast<GroupStart*>(cuts + workers);
    requests = reinterpret_cast<CascadeRequest*>(groups + p.capacity_groups);
    segments = reinterpret_cast<KvSegment*>(requests + p.capacity_requests + 1);
    tiles_of_parts = reinterpret_cast<SplitTile*>(segments + p.capacity_segments);
    tiles = reinterpret_cast<CascadeTile*>(tiles_of_parts + p.capacity_tiles);
    starts = reinterpret_cast<TileStart*>(tiles + p.capacity_tiles);
    first_items = reinterpret_cast<int*>(starts + starts_count);
    first_splits = first_items + workers;
    segment_of = first_splits + workers;
    shared_part = segment_of + p.capacity_groups;
    first_tiles = shared_part + p.capacity_groups;
    states_before = first_tiles + p.capacity_groups + p.capacity_requests;
    states = states_before + p.capacity_levels * p.capacity_units;
    merged_rows = states + p.capacity_units;
    used_workers = reinterpret_cast<unsigned*>(merged_rows + p.capacity_units);
  }

  int request_of_unit(const CascadePlanParams& p, int unit) const {
    auto is_before = [&](unsigned request) { return requests[request].first_unit <= unit; };
    return static_cast<int>(partition_point(p.requests, is_before)) - 1;
  }
};
