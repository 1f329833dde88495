// The segments and requests of a batch with levels, as attn-core/src/batch/cascade.rs: checked, and written to the
// arrays of the plan.
#pragma once
#include "planner/cascade_memory.cuh"
#include "planner/cascade_tables.cuh"
#include "planner/merge_units.cuh"
#include "planner/request_of_query.cuh"

inline unsigned rows_of(const CascadePlanParams& p, const CascadeRequest& request) {
  return static_cast<unsigned>(request.queries) * p.group.divisor;
}
inline bool is_decode(const CascadePlanParams& p, const CascadeRequest& request) {
  return rows_of(p, request) <= static_cast<unsigned>(p.decode_rows);
}
// The rows of tiles of a request that runs alone.
inline unsigned tile_rows_of(const CascadePlanParams& p, const CascadeRequest& request) {
  return is_decode(p, request) ? p.decode_rows : p.tile_rows.divisor;
}
// The first row of a unit in its request; for the unit behind them the rows of the request.
inline int row_of_unit(const CascadePlanParams& p, const CascadeRequest& request, int unit) {
  unsigned row = lang::merge_units::first_row(unit - request.first_unit, tile_rows_of(p, request));
  return static_cast<int>(min(row, rows_of(p, request)));
}

template <class Cta>
class CascadeRequests {
  Cta& cta_;
  const CascadePlanParams& p_;
  const CascadeScratch& memory_;
  unsigned single_ = 0;
  int segments_ = 0, keys_ = 0;

  // Checks that a level's groups cover the queries of the batch. A thread checks one end of a group.
  void check_ends(LevelGroup of, LevelFault& fault) const {
    const LevelTables& table = p_.tables[of.level];
    int level = fault_level(p_, of.level), begin = table.qo_indptr[of.index], end = table.qo_indptr[of.index + 1];
    if (level == 0) return;  // each request checks its own
    fault.note(level, of.index == 0 && begin != 0, Fault::QoStart, 0, begin);
    fault.note(level, end < begin, Fault::QoOrder, of.index + 1, end, begin);
    int total = p_.qo_indptr[p_.requests];
    fault.note(level, of.index + 1 == table.groups && end != total, Fault::LevelEnd, 0, end, total);
  }

  void check_levels_without_groups(LevelFault& fault) const {
    int total = p_.qo_indptr[p_.requests];
    fault.note(0, p_.requests == 0 && total != 0, Fault::QoStart, 0, total);
#pragma unroll 1
    for (int level = 0; level < p_.levels; ++level) {
      const LevelTables& table = p_.tables[level];
      if (table.groups > 0) continue;
      int of_level = fault_level(p_, level), first = table.qo_indptr[0];
      fault.note(of_level, first != 0, Fault::QoStart, 0, first);
      fault.note(of_level, first != total, Fault::LevelEnd, 0, first, total);
      first = table.page_indptr ? table.page_indptr[0] : 0;
      fault.note(of_level, first != 0, Fault::PageStart, 0, first);
    }
  }

  // The queries of a request; none if it is not sound.
  CascadeRequest read_queries(int number, LevelFault& fault) const {
    int token = p_.qo_indptr[number], end = p_.qo_indptr[number + 1];
    LevelFault found;
    found.note(0, number == 0 && token != 0, Fault::QoStart, 0, token);
    found.note(0, token < 0 || end < token, Fault::QoOrder, number + 1, end, token);
    found.note(0, end > p_.max_qo_tokens, Fault::QoTokens, number, end);
    if (found.code == Fault::None) found.note(0, end - token > p_.max_queries, Fault::RequestRows, number, end - token);
    fault.join(found);
    bool sound = found.code == Fault::None;
    return {sound ? token : 0, sound ? end - token : 0, 0, 0, 0, 0, 0, -1};
  }

  // Checks that the groups of a request have all of it, and that a group is within one group of the level before.
  void check_group(int number, int level, int group, int coarser, LevelFault& fault) const {
    bool is_single = single_ >> level & 1;
    int token = p_.qo_indptr[number], token_end = p_.qo_indptr[number + 1];
    if (!is_single && group >= 0 && token < token_end) {
      int end = p_.tables[level].qo_indptr[group + 1];
      fault.note(level + 1, end < token_end, Fault::GroupCutsRequest, group + 1, end, number);
    }
    if (is_single || level == 0 || number == 0) return;
    auto before = [&](int of) { return group_of_request(p_, of, number - 1, p_.qo_indptr[number - 1], single_); };
    if (before(level) != group) return;
    fault.note(level + 1, before(level - 1) != coarser, Fault::NotNested, group, 0, number);
  }

  // Adds the keys of all levels up, and places the segments that begin with this request behind those of the levels
  // before.
  Cost add_levels(int number, CascadeRequest& own, LevelFault& fault) const {
    Cost keys = 0;
    int coarser = -1;
#pragma unroll 1
    for (int level = 0; level < p_.levels; ++level) {
      int group = group_of_request(p_, level, number, p_.qo_indptr[number], single_);
      check_group(number, level, group, coarser, fault);
      coarser = group;
      int segment = group < 0 ? -1 : memory_.groups[p_.tables[level].first_group + group].segment;
      memory_.segment_of[level * p_.requests + number] = segment;
      if (segment < 0) continue;
      KvSegment& of = memory_.segments[segment];
      if (of.request == number) of.kv_begin = clamped(keys);
      keys += of.keys;
      own.last_level = level;
    }
    return keys;
  }

 public:
  CascadeRequests(Cta& cta, const CascadePlanParams& p, const CascadeScratch& memory)
      : cta_(cta), p_(p), memory_(memory) {}

  int segments() const { return segments_; }
  const CascadeRequest& all() const { return memory_.requests[p_.requests]; }

  // Scans the groups of all levels, and notes their segments without what their requests have.
  void scan_groups(LevelFault& fault) {
    single_ = single_levels(cta_, p_);
    GroupScan<Cta> scan(cta_, p_, single_);
    if (cta_.thread() == 0) check_levels_without_groups(fault);
#pragma unroll 1
    for (int first = 0; first < p_.groups; first += Cta::THREADS) {
      ScannedGroup own = scan.next(first, fault);
      if (own.number >= p_.groups) continue;
      check_ends(own.of, fault);
      memory_.groups[own.number] = {own.segment, own.memory};
      if (own.segment < 0) continue;
      int requests = own.requests.end - own.requests.begin;
      memory_.segments[own.segment] = {own.requests.begin, requests, 0, own.keys, own.memory, own.pass, 0, 0};
    }
    segments_ = min(scan.segments(), p_.capacity_segments), keys_ = scan.keys();
    int tokens = has_pages(p_) ? 0 : scan.memory();
    fault.note(0, tokens > p_.max_memory_tokens, Fault::MemoryTokens, 0, tokens, p_.max_memory_tokens);
    cta_.sync();
  }

  // Scans the requests, and completes their segments.
  void scan_requests(LevelFault& fault) {
    constexpr int UNIT_BITS = 24, COUNT_BITS = 20;  // of one prefix sum; MixedPlanParams::new bounds units
    Cost keys = 0, counted = 0;
    auto put = [&](CascadeRequest& of, Cost counts) {
      of.first_unit = static_cast<int>(counts & ((1u << UNIT_BITS) - 1));
      of.active = static_cast<int>(counts >> UNIT_BITS & ((1u << COUNT_BITS) - 1));
      of.decodes = static_cast<int>(counts >> (UNIT_BITS + COUNT_BITS));
    };
#pragma unroll 1
    for (int first = 0; first < p_.requests; first += Cta::THREADS) {
      int number = first + cta_.thread(), count = min(p_.requests - first, Cta::THREADS);
      CascadeRequest own = {};
      Cost own_keys = 0, units = 0;
      if (number < p_.requests) {
        own = read_queries(number, fault);
        own_keys = add_levels(number, own, fault);
        units = lang::merge_units::count(rows_of(p_, own), tile_rows_of(p_, own));
      }
      Cost all, before = keys + cta_.exclusive_sum(own_keys, count, all);
      keys += all;
      fault.note(0, before + own_keys > static_cast<Cost>(p_.max_kv_tokens), Fault::KvTokens, number,
                 clamped(before + own_keys), p_.max_kv_tokens);
      own.kv_token = static_cast<int>(before), own.keys = static_cast<int>(own_keys);
      Cost active = own.queries > 0, decodes = active && is_decode(p_, own);
      before = (decodes << COUNT_BITS | active) << UNIT_BITS | units;
      before = counted + cta_.exclusive_sum(before, count, all);
      counted += all;
      if (number >= p_.requests) continue;
      put(own, before);
      memory_.requests[number] = own;
      p_.to_qo_indptr[number] = own.qo_token, p_.to_kv_indptr[number] = own.kv_token;
#pragma unroll 1
      for (int level = 0; level < p_.levels; ++level) {
        int segment = memory_.segment_of[level * p_.requests + number];
        if (segment < 0 || memory_.segments[segment].request != number) continue;
        memory_.segments[segment].kv_token = own.kv_token, memory_.segments[segment].kv_len = own.keys;
      }
    }
    if (cta_.thread() == 0) {
      CascadeRequest all = {p_.qo_indptr[p_.requests], 0, static_cast<int>(keys), 0, 0, 0, 0, -1};
      put(all, counted);
      memory_.requests[p_.requests] = all;
    }
    cta_.sync();
  }

  // Writes segments, the ends of the arrays up to the capacity, and the request of each query.
  void write_ends() const {
    int tokens = all().qo_token;
    cta_.each(p_.requests, p_.capacity_requests + 1,
              [&](int entry) { p_.to_qo_indptr[entry] = tokens, p_.to_kv_indptr[entry] = all().kv_token; });
    if (cta_.thread() == 0) p_.segment_ends[0] = 0;
    cta_.each(0, segments_, [&](int entry) {
      KvSegment segment = memory_.segments[entry];
      p_.segments[entry] = segment, p_.segment_ends[entry + 1] = segment.pass + segment.keys;
    });
    cta_.each(segments_, p_.capacity_segments,
              [&](int entry) { p_.segments[entry] = {}, p_.segment_ends[entry + 1] = keys_; });
    write_request_of_query(cta_, p_, tokens, [&](int request) { return memory_.requests[request]; });
  }
};
