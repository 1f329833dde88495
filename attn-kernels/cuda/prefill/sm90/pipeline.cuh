// What warpgroups of different trades tell each other: tiles of keys and values in a ring of STAGES, the pieces of work that they are of, and who waits for whom.
#pragma once
#include "arch/mbarrier.cuh"
#include "schedule/kv_tile_iter.cuh"
#include "schedule/q_tile.cuh"
#include "memory/smem_tile.cuh"

// Parts of the rows, of a warpgroup each, whose tiles are classified apart: where tiles are of more rows than keys, so that a part may see none, and asking is cheap.
constexpr int PARTS = Variant::HAS_BOUNDS && WARPS > 8 ? WARPS / 4 : 1;

// A tile of the ring, as who copied it found out.
struct RingTile {
  static constexpr int LAST = 1, END = 2, FULL = 4, SKIP = FULL << PARTS;  // a bit for each part, of the last two
  int key;    // its first; -1: no keys, of an item that sees none
  int flags;

  RingTile() = default;
  RingTile(int key, int flags) : key(key), flags(flags) {}
  RingTile(int key, TileClasses classes, bool last) : key(key), flags(int(classes.full) * FULL | int(classes.skip) * SKIP | last * LAST) {}

  bool has_keys() const { return key >= 0; }
  bool last() const { return flags & LAST; }  // of its item
  bool end() const { return flags & END; }    // of all work: not a tile
  // Every logit of a part counts; none does.
  bool full(int part) const { return flags & FULL << part; }
  bool skip(int part) const { return flags & SKIP << part; }
};

// A piece of work.
struct PlacedItem {
  WorkItem item;
  int kv_head;
};
// As it is copied and read, 16 bytes at a time.
struct alignas(16) PlacedWords {
  static constexpr int FOURS = (sizeof(PlacedItem) + 15) / 16;
  int words[4 * FOURS];
};
static_assert(sizeof(WorkItem) % 16 == 0, "an item is copied in whole 16 bytes");

// What is in shared memory beside the tiles. Where an item is written, all tiles have been announced of the last item but one, and no more than STAGES of those are unread: so
// everybody has read the item that was there, as between it and that one lie STAGES items, of a tile at least.
struct RingState {
  static constexpr int ITEMS = STAGES + 2;
  unsigned long long barriers[4 * STAGES + 2 * QUERY_STAGES];
  RingTile tiles[STAGES];
  PlacedWords items[ITEMS];
  unsigned next_work[2];
};

// Which stage the n-th tile of the launch has, and how often it was used before.
struct RingPlace {
  int stage;
  unsigned round;
  explicit RingPlace(int n) : stage(n % STAGES), round(n / STAGES & 1) {}
};

// The same of queries, by the number of the piece of work.
struct QueryPlace {
  int stage;
  unsigned round;
  explicit QueryPlace(int number) : stage(number % QUERY_STAGES), round(number / QUERY_STAGES & 1) {}
};

class Ring {
  RingState* state_;
  unsigned base_;

  unsigned barrier(int number) const { return base_ + 8 * number; }

 public:
  explicit Ring(RingState& state) : state_(&state), base_(shared_address(state.barriers)) {}

  // Keys, and values, have arrived; keys, and values, have been read; and of queries alike.
  unsigned keys_there(int stage) const { return barrier(stage); }
  unsigned values_there(int stage) const { return barrier(STAGES + stage); }
  unsigned keys_read(int stage) const { return barrier(2 * STAGES + stage); }
  unsigned values_read(int stage) const { return barrier(3 * STAGES + stage); }
  unsigned queries_there(int stage) const { return barrier(4 * STAGES + stage); }
  unsigned queries_read(int stage) const { return barrier(4 * STAGES + QUERY_STAGES + stage); }

  // By one thread. `keys`, `values`, `queries`: threads that arrive when one of these has been copied.
  void init(int keys, int values, int queries) const {
#pragma unroll
    for (int stage = 0; stage < STAGES; ++stage) {
      init_barrier(keys_there(stage), keys);
      init_barrier(values_there(stage), values);
      init_barrier(keys_read(stage), WARPS);
      init_barrier(values_read(stage), WARPS);
    }
#pragma unroll
    for (int stage = 0; stage < QUERY_STAGES; ++stage) {
      init_barrier(queries_there(stage), queries);
      init_barrier(queries_read(stage), WARPS);
    }
    publish_barriers();
  }

  // By one thread, of a stage whose keys have been read: says what is coming there, and that so many bytes of keys are, in boxes.
  void announce(int stage, RingTile tile, unsigned bytes) const {
    volatile RingTile& there = state_->tiles[stage];
    there.key = tile.key;
    there.flags = tile.flags;
    arrive_expecting(keys_there(stage), bytes);
  }
  // Until the keys of tile `n` are there.
  void wait(int n) const {
    RingPlace at(n);
    wait_barrier(keys_there(at.stage), at.round);
  }
  // That tile. The lane that says that a warp has read a tile is the one that reads: what others read nobody would wait for.
  RingTile tile(int n) const {
    volatile RingTile& there = state_->tiles[RingPlace(n).stage];
    RingTile tile(0, 0);
    if (threadIdx.x % 32 == 0) {
      tile.key = there.key;
      tile.flags = there.flags;
    }
    return {__shfl_sync(ALL_LANES, tile.key, 0), __shfl_sync(ALL_LANES, tile.flags, 0)};
  }
  RingTile take(int n) const {
    wait(n);
    return tile(n);
  }

  // By one thread, once all tiles of the last item but one have been announced: the item is on its way to its place. Who copies it waits, and tells the others.
  void place(int number, const WorkItem& item, int kv_head) const {
    PlacedWords& to = state_->items[number % RingState::ITEMS];
    unsigned shared = shared_address(to.words);
#pragma unroll
    for (int i = 0; i < static_cast<int>(sizeof(WorkItem)) / 16; ++i) copy_async_16(shared + 16 * i, reinterpret_cast<const char*>(&item) + 16 * i);
    copy_async_commit();
    static_cast<volatile int*>(to.words)[sizeof(WorkItem) / 4] = kv_head;
  }
  // By warps, of which one lane reads: what the others read nobody would wait for.
  PlacedItem placed(int number) const {
    constexpr int WORDS = sizeof(PlacedItem) / 4, FOURS = PlacedWords::FOURS;
    unsigned there = shared_address(state_->items[number % RingState::ITEMS].words);
    uint4 fours[FOURS] = {};
    if (threadIdx.x % 32 == 0)
#pragma unroll
      for (int i = 0; i < FOURS; ++i) fours[i] = load_shared_16(there + 16 * i);
    PlacedItem item;
    int* words = reinterpret_cast<int*>(&item);
#pragma unroll
    for (int i = 0; i < WORDS; ++i) {
      const uint4& four = fours[i / 4];
      words[i] = __shfl_sync(ALL_LANES, static_cast<int>(i % 4 == 0 ? four.x : i % 4 == 1 ? four.y : i % 4 == 2 ? four.z : four.w), 0);
    }
    return item;
  }

  // Among those that copy: which work is next, as one of them says, before they all meet.
  volatile unsigned& next_work(int number) const { return state_->next_work[number % 2]; }
};
