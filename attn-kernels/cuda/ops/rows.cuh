// Copies rows of K and V between packed tensors and paged pools (append and gather), converting FromElem to ToElem.
// Grid (rows / rows per CTA, keys and values).
//
// A CTA processes ROUNDS times its rows. A thread issues the loads of all its chunks before the first store. Rows of
// length 0 only have their slots checked.
#pragma once
#include "ops/element.cuh"
#include "ops/slots.cuh"

template <int COUNT>
struct RowCopier {
  using From = ElementVector<FromElem, COUNT>;
  static constexpr int ROUNDS = From::WORDS <= 4 ? 4 : From::WORDS <= 8 ? 2 : 1;

  // `counts_skipped`: whether this part adds to the counter of skipped tokens.
  static void run(const RowsParams& p, const RowsPart& part, bool counts_skipped) {
    RowChunk at = row_chunk(part.share);
    if (!at.exists) return;
    if constexpr (!ROWS_TO_POOL) {
      if (counts_skipped && blockIdx.x == 0 && threadIdx.x == 0) count_past_capacity(p);
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
        DivMod token_head = divmod(row, part.share.heads);
        long long token = token_head.quotient;
        heads[round] = token_head.remainder;
        PoolSlot slot = pool_slot(p, token);
        if (slot.invalid && counts_skipped && token_head.remainder == 0 && chunk == 0) count_skipped(p.status);
        if (slot.page < 0 || part.dim == 0) continue;
        long long packed = packed_offset(part.packed, token, token_head.remainder),
                  pool = pool_offset(part.pool, slot, token_head.remainder);
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
    ElementVector<ToElem, COUNT> result;
    result.encode(x);
    result.store(to);
  }
};
