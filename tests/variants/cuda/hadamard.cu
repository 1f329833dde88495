#line _ "cuda/lang/hadamard.cuh"
// The Walsh-Hadamard transform of each n elements of a row, x <- H x / sqrt(n), n the largest power of two that divides
// its length: only variants that call it have it in their text. The stages have the order of the CPU's
// (attn-core/src/lang/row.rs), and each sum has two operands, so the bits are the same however a row is distributed.
// The headers of the language come before.

#line _ "cuda/lang/hadamard.cuh"
namespace lang {

ATTN_FN float hadamard_scale(int n) { return 1.f / ATTN_MATH(sqrtf)(float(n)); }

// Each function leaves a row as it is that is not `selected`.

#ifndef ATTN_HOST
// Values in registers (memory/row.cuh). Every lane of a warp takes part, since values are exchanged.
template <class Row>
ATTN_FN auto hadamard(Row& row, bool selected = true) -> decltype(void(Row::LANES_OF_ROW)) {
  constexpr int LANES = Row::LANES_OF_ROW, VEC = Row::VALUES_OF_LANE, RUN = Row::IN_HALVES ? VEC / 2 : VEC;
  constexpr int BLOCK = Row::DIMS & -Row::DIMS;
  const Row before = row;
  auto in_lane = [&](int stride) {
    ATTN_UNROLL
    for (int i = 0; i < VEC; ++i) {
      if (i & stride) continue;
      float a = row.x[i], b = row.x[i + stride];
      row.x[i] = a + b, row.x[i + stride] = a - b;
    }
  };
  ATTN_UNROLL
  for (int stride = 1; stride < RUN && stride < BLOCK; stride *= 2) in_lane(stride);
  ATTN_UNROLL
  for (int lanes = 1; lanes < LANES && RUN * lanes < BLOCK; lanes *= 2) {
    bool upper = Row::lane() & lanes;
    ATTN_UNROLL
    for (int i = 0; i < VEC; ++i) {
      float other = __shfl_xor_sync(0xffffffffu, row.x[i], lanes);
      row.x[i] = upper ? other - row.x[i] : row.x[i] + other;
    }
  }
  if (Row::IN_HALVES && BLOCK == Row::DIMS) in_lane(RUN);
  float scale = hadamard_scale(BLOCK);
  ATTN_UNROLL
  for (int i = 0; i < VEC; ++i) row.x[i] = selected ? row.x[i] * scale : before.x[i];
}

// Values in shared memory, of a row that a warp has (ops/smem_row.cuh).
template <class Row>
ATTN_FN auto hadamard(Row& row, bool selected = true) -> decltype(void(row.values)) {
  if (!selected) return;
  int block = row.values & -row.values;
  __syncwarp();
  for (int stride = 1; stride < block; stride *= 2) {
    for (int pair = Row::lane(); pair < row.values / 2; pair += 32) {
      float* x = row.x + 2 * stride * (pair / stride) + pair % stride;
      float a = x[0], b = x[stride];
      x[0] = a + b, x[stride] = a - b;
    }
    __syncwarp();
  }
  float scale = hadamard_scale(block);
  for (int d = Row::lane(); d < row.values; d += 32) row.x[d] = row.x[d] * scale;
  __syncwarp();
}
#endif

// The row of a long hook (lang/called_row.cuh).
template <class Row>
ATTN_FN auto hadamard(Row& row, bool selected = true) -> decltype(void(row.row)) {
  hadamard(row.row, selected);
}

// The row of a branch of a union over heads.
template <class R>
ATTN_FN void hadamard(HeadRow<R>& row, bool selected = true) {
  hadamard(row.row, selected && row.selected);
}

}  // namespace lang

#line _ "variant"
namespace lang {

/// Rotates queries and keys, and if asked for values and outputs, by the Walsh-Hadamard transform.
///
/// `x <- H x / sqrt(head_dim)`, which leaves products of queries and keys and, since it is its own inverse, outputs as
/// they are but for rounding; dimensions are powers of two. Afterwards the elements of a row have similar sizes, so
/// that KV formats of four bits lose less: with rotated rows in the cache (`KvStored::Transformed`) appends rotate and
/// encode, and kernels decode only. As in QuaRot (arXiv 2404.00456) and SpinQuant (arXiv 2405.16406).
struct Hadamard {
  alignas(4) bool values_;

#line _ "variants/src/quant/hadamard.rs"
  template <class R> ATTN_FN void query_transform(R& q, RowIndex _at) const {
    hadamard(q);
  }

#line _ "variants/src/quant/hadamard.rs"
  template <class R> ATTN_FN void key_transform(R& k, KvIndex _at) const {
    hadamard(k);
  }

#line _ "variants/src/quant/hadamard.rs"
  template <class R> ATTN_FN void value_transform(R& v, KvIndex _at) const {
    if (values_) {
      hadamard(v);
    }
  }

#line _ "variants/src/quant/hadamard.rs"
  template <class R> ATTN_FN void output_transform(R& o, RowState _state, RowIndex _at) const {
    if (values_) {
      hadamard(o);
    }
  }
#line _ "variant"
};
