// Interval queries of parameter tensors for the tile classifier: the minimum and maximum element in a box of indices,
// from precomputed minima and maxima of blocks. The query is made of attn-core/src/lang/param_tensor/bounds.rs, which
// defines the blocks; here are the elements that it reads, and what masks call.
#pragma once

#include "lang/parameter_tensor.cuh"
#include "lang/interval.cuh"
#include "lang/table_range.cuh"

namespace lang {
namespace interval {

// The minimum and maximum of a block of elements, as the bits of int or u32. Bools, bits and u8 are widened.
struct MinMax {
  u32 lo, hi;
};

}  // namespace interval

// Precomputed bounds of the elements of a tensor.
struct TensorBounds {
  const interval::MinMax* blocks;  // null for a monotone or a mutable tensor
  interval::MinMax whole;
};

namespace interval {

template <class T>
struct TensorQuery {
  const T* data;
  TensorBounds known;
};

template <class T>
ATTN_FN WideMinMax widened(u32 lo, u32 hi) {
  if constexpr (SAME<T, int>)
    return {int(lo), int(hi), true};
  else
    return {lo, hi, true};
}
template <class T>
ATTN_FN WideMinMax whole(const TensorQuery<T>& tensor) {
  return widened<T>(tensor.known.whole.lo, tensor.known.whole.hi);
}
template <class T>
ATTN_FN bool is_monotone(const TensorQuery<T>& tensor) {
  return !tensor.known.blocks;
}
template <class T>
ATTN_FN WideMinMax element(const TensorQuery<T>& tensor, i64 at) {
  const i64 x = read_element(tensor.data, at);
  return {x, x, true};
}
template <class T>
ATTN_FN WideMinMax block(const TensorQuery<T>& tensor, i64 at) {
  return widened<T>(load(&tensor.known.blocks[at].lo), load(&tensor.known.blocks[at].hi));
}

// ---- called by masks: a tensor, its bounds, and an abstract index for each axis ----

template <class I>
ATTN_FN void set_box_axis(IndexBox& box, int axis, int extent, I) {
  box.lo.x[axis] = 0, box.hi.x[axis] = extent - 1, box.extent.x[axis] = extent;
}
ATTN_FN void set_box_axis(IndexBox& box, int axis, int extent, Interval<int> i) {
  box.lo.x[axis] = clamp_index(i.lo, extent), box.hi.x[axis] = clamp_index(i.hi, extent), box.extent.x[axis] = extent;
}

// The abstract value of an element, by its type.
template <int RANK, class T>
ATTN_FN auto element_interval(const T* data, const TensorBounds& known, const IndexBox& box) {
  if constexpr (SAME<T, int> || SAME<T, u32> || SAME<T, u8>) {
    const WideMinMax found = min_max_of(TensorQuery<T>{data, known}, RANK, box);
    return between<T>(found.lo, found.hi);
  } else if constexpr (SAME<T, bool> || SAME<T, PackedBits>) {
    const WideMinMax found = min_max_of(TensorQuery<T>{data, known}, RANK, box);
    return found.lo == 1 ? Tristate::True : found.hi == 0 ? Tristate::False : Tristate::Unknown;
  } else {
    return Any{};
  }
}

ATTN_FN IndexBox no_box() { return {{{0, 0, 0, 0}}, {{0, 0, 0, 0}}, {{1, 1, 1, 1}}}; }

}  // namespace interval

template <class T, int RANK, class... I>
ATTN_FN auto interval_of(const Tensor<T, RANK>& t, const TensorBounds& known, I... i) {
  interval::IndexBox box = interval::no_box();
  int axis = 0;
  ((interval::set_box_axis(box, 4 - RANK + axis, t.shape[axis], i), ++axis), ...);
  return interval::element_interval<RANK>(t.data, known, box);
}

}  // namespace lang
