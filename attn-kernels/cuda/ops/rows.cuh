// attn_rows_*: rows of FromElem become rows of ToElem, between packed tensors and pools. Grid (rows over those of a CTA, keys and values).
//
// A CTA takes ROUNDS times its rows, and a thread asks for all of its chunks before it writes one. Of rows without values only the places are looked at.
#pragma once
#include "ops/element.cuh"
#include "ops/slots.cuh"

template <int COUNT>
struct RowMover {
  using From = Loaded<FromElem, COUNT>;
  static constexpr int ROUNDS = From::WORDS <= 4 ? 4 : From::WORDS <= 8 ? 2 : 1;

  static void run(const RowsParams& p, const RowsPart& part, bool counts) {
    RowPlace at = row_place(part.share);
    if (!at.there) return;
    if constexpr (!ROWS_TO_POOL) {
      if (counts && blockIdx.x == 0 && threadIdx.x == 0) count_past_room(p);
    }
    const Strided &source = ROWS_TO_POOL ? part.packed : part.pool, &target = ROWS_TO_POOL ? part.pool : part.packed;
    int chunks = part.share.chunks.divisor;
    u64 rows = static_cast<u64>(p.tokens) * part.share.heads.divisor;
    u64 first = static_cast<u64>(blockIdx.x) * (ROUNDS * part.share.rows) + at.row;
    for (int chunk = at.chunk; chunk < chunks; chunk += OP_THREADS) {
      From loaded[ROUNDS];
      long long to[ROUNDS];
      int heads[ROUNDS];
#pragma unroll
      for (int round = 0; round < ROUNDS; ++round) {
        u64 row = first + round * part.share.rows;
        to[round] = -1;
        if (row >= rows) continue;
        Split where = split(row, part.share.heads);
        long long token = where.quotient;
        heads[round] = where.rest;
        PoolPlace place = place_of(p, token);
        if (place.bad && counts && where.rest == 0 && chunk == 0) count_in(p.status);
        if (place.page < 0 || part.dim == 0) continue;
        long long packed = packed_offset(part.packed, token, where.rest), pool = pool_offset(part.pool, place, where.rest);
        loaded[round].load(static_cast<const FromElem*>(source.data) + (ROWS_TO_POOL ? packed : pool) + chunk * COUNT);
        to[round] = (ROWS_TO_POOL ? pool : packed) + chunk * COUNT;
      }
#pragma unroll
      for (int round = 0; round < ROUNDS; ++round)
        if (to[round] >= 0) write(part, loaded[round], heads[round], static_cast<ToElem*>(target.data) + to[round]);
    }
  }

  static void write(const RowsPart& part, const From& loaded, int head, ToElem* to) {
    if constexpr (sizeof(FromElem) == sizeof(ToElem)) {
      if (part.raw) return loaded.store(to);
    }
    float x[COUNT];
    loaded.decode_to(x);
    float factor = row_factor(part, head);
#pragma unroll
    for (int i = 0; i < COUNT; ++i) x[i] *= factor;
    Loaded<ToElem, COUNT> result;
    result.encode(x);
    result.store(to);
  }
};
