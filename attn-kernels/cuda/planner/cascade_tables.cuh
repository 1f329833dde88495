// Reads the tables of a batch with levels: for each level its groups of requests, their keys and pages. The level of
// the requests' own keys is the last, and a request is a group there. Groups of all levels are numbered level by level.
#pragma once
#include "planner/params.cuh"
#include "planner/cascade_structs.cuh"
#include "planner/requests.cuh"
#include "planner/search.cuh"

// The first fault that a thread found. `level`: that of the array, from 1 on; 0 for the arrays of requests.
struct LevelFault : BatchFault {
  int level = 0;

  void note(int of_level, bool wrong, Fault what, int at, int found, int before = 0) {
    if (wrong && code == Fault::None) level = of_level;
    BatchFault::note(wrong, what, at, found, before);
  }
  void join(const LevelFault& other) {
    if (code == Fault::None) *this = other;
  }
};

struct LevelGroup {
  int level, index;
};

inline LevelGroup group_of_number(const CascadePlanParams& p, int number) {
  int level = 0;
#pragma unroll 1
  while (level + 1 < p.levels && p.tables[level + 1].first_group <= number) ++level;
  return {level, number - p.tables[level].first_group};
}

// The level that a fault of a table names.
inline int fault_level(const CascadePlanParams& p, int level) { return level + 1 < p.levels ? level + 1 : 0; }

// The keys of a group, and the entries of the level's page table that hold them.
struct GroupKeys {
  int keys = 0;
  long long page = 0;
};

// Reads and checks the keys of a group. A group with a fault has none.
inline GroupKeys read_keys(const CascadePlanParams& p, LevelGroup of, LevelFault& fault) {
  const LevelTables& table = p.tables[of.level];
  LevelFault found;
  int level = fault_level(p, of.level), keys = table.kv_lens[of.index];
  GroupKeys group = {keys, of.index * table.page_stride};
  int pages = static_cast<int>(min(table.page_stride, 0x7fffffffll));
  if (table.page_indptr) {
    int begin = table.page_indptr[of.index], end = table.page_indptr[of.index + 1];
    found.note(level, of.index == 0 && begin != 0, Fault::PageStart, 0, begin);
    found.note(level, begin < 0 || end < begin, Fault::PageOrder, of.index + 1, end, begin);
    found.note(level, end > table.page_entries, Fault::PageCapacity, of.index, end, table.page_entries);
    group.page = begin, pages = found.code == Fault::None ? end - begin : 0;
  }
  found.note(level, keys < 0, Fault::KvLen, of.index, keys);
  found.note(level, keys > p.max_kv_tokens, Fault::KvTokens, of.index, keys, p.max_kv_tokens);
  found.note(level, has_pages(p) && ceil_divide(keys, p.page_size) > pages, Fault::FewPages, of.index, pages, keys);
  if (found.code == Fault::None) return group;
  fault.join(found);
  return {};
}

// The group of a request whose first query is `token`: that of the next query, or the last group. -1: there is none.
// Bit `level` of `single` says that each request is a group.
inline int group_of_request(const CascadePlanParams& p, int level, int request, int token, unsigned single) {
  if (single >> level & 1) return request;
  const LevelTables& table = p.tables[level];
  auto is_before = [&](unsigned group) { return table.qo_indptr[group + 1] <= token; };
  return min(static_cast<int>(partition_point(table.groups, is_before)), table.groups - 1);
}

struct RequestRange {
  int begin, end;
};

// The requests of a group.
inline RequestRange requests_of(const CascadePlanParams& p, LevelGroup of, unsigned single) {
  if (single >> of.level & 1) return {of.index, of.index + 1};
  const LevelTables& table = p.tables[of.level];
  auto first_from = [&](int token) {
    return static_cast<int>(partition_point(p.requests, [&](unsigned other) { return p.qo_indptr[other] < token; }));
  };
  int begin = of.index == 0 ? 0 : first_from(table.qo_indptr[of.index]);
  return {begin, of.index + 1 == table.groups ? p.requests : first_from(table.qo_indptr[of.index + 1])};
}

// The levels in which each request is a group: the last, and those whose `qo_indptr` equals that of the batch.
template <class Cta>
unsigned single_levels(Cta& cta, const CascadePlanParams& p) {
  unsigned single = 1u << (p.levels - 1);
#pragma unroll 1
  for (int level = 0; level + 1 < p.levels; ++level) {
    if (p.tables[level].groups != p.requests) continue;
    bool differs = false;
    cta.each(0, p.requests + 1, [&](int entry) { differs |= p.tables[level].qo_indptr[entry] != p.qo_indptr[entry]; });
    if (!cta.any(differs)) single |= 1u << level;
  }
  return single;
}

// A group, and what prefix sums say of it. `number`: of all groups; past them, the group has nothing.
struct ScannedGroup {
  int number;
  LevelGroup of;
  RequestRange requests;
  int keys;
  int segment;  // -1: without requests or keys it is none
  int pass;     // keys of the segments before
  int memory;   // in the plan's page table, or of ragged keys
};

// Scans the groups of all levels in order, one a thread.
template <class Cta>
class GroupScan {
  Cta& cta_;
  const CascadePlanParams& p_;
  unsigned single_;
  Cost segments_ = 0, keys_ = 0, memory_ = 0;

 public:
  GroupScan(Cta& cta, const CascadePlanParams& p, unsigned single) : cta_(cta), p_(p), single_(single) {}

  // Of all groups so far.
  int segments() const { return clamped(segments_); }
  int keys() const { return clamped(keys_); }
  int memory() const { return clamped(memory_); }

  // This thread's group of those from `first` on.
  ScannedGroup next(int first, LevelFault& fault) {
    constexpr int KEY_BITS = 42;  // one prefix sum counts keys in the lower 42 bits and segments in the upper ones
    constexpr Cost KEYS = (1ull << KEY_BITS) - 1;
    ScannedGroup own = {first + cta_.thread(), {0, 0}, {0, 0}, 0, -1, 0, 0};
    Cost memory = 0;
    int count = min(p_.groups - first, Cta::THREADS);
    if (own.number < p_.groups) {
      own.of = group_of_number(p_, own.number);
      own.requests = requests_of(p_, own.of, single_);
      own.keys = read_keys(p_, own.of, fault).keys;
      // ragged keys are there even if no request has them
      bool there = own.requests.begin < own.requests.end;
      memory = !has_pages(p_) ? own.keys : there ? ceil_divide(own.keys, p_.page_size) : 0;
      if (!there) own.keys = 0;
    }
    bool is_segment = own.keys > 0;
    Cost all, before = cta_.exclusive_sum(static_cast<Cost>(is_segment) << KEY_BITS | own.keys, count, all);
    own.pass = clamped(keys_ + (before & KEYS));
    int segment = clamped(segments_ + (before >> KEY_BITS));
    keys_ += all & KEYS, segments_ += all >> KEY_BITS;
    before = cta_.exclusive_sum(memory, count, all);
    own.memory = clamped(memory_ + before);
    memory_ += all;
    // a batch with more has a fault
    if (is_segment && segment < p_.capacity_segments) own.segment = segment;
    return own;
  }
};
