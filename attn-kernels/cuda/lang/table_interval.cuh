// Interval queries of parameter tensors for the tile classifier: the minimum and maximum element in a box of indices,
// from precomputed minima and maxima of blocks. attn-core/src/lang/param_tensor/bounds.rs defines the blocks and gives
// the same results, bit for bit.
#pragma once

#include "lang/parameter_tensor.cuh"
#include "lang/interval.cuh"

namespace lang {
namespace interval {

// The minimum and maximum of a block of elements, as the bits of int or u32. Bools, bits and u8 are widened.
struct MinMax {
  u32 lo, hi;
};

}  // namespace interval

// Precomputed bounds of the elements of a tensor.
struct TensorBounds {
  const interval::MinMax* blocks;  // null for a monotone tensor
  interval::MinMax whole;
};

namespace interval {

// A box of indices along four axes, from `lo` to `hi` inclusive. A tensor of lower rank has leading axes of extent 1.
struct Box {
  int lo[4], hi[4], extent[4];
  ATTN_FN u32 count(int axis) const { return u32(hi[axis]) - u32(lo[axis]) + 1u; }
  // Whether the axes from `first` to before `end` span at most `limit` indices.
  ATTN_FN bool small(int first, int end, u32 limit) const {
    u32 all = 1;
    for (int axis = first; axis < end; ++axis) {
      u32 n = count(axis);
      all *= n < limit + 1 ? n : limit + 1;
    }
    return all <= limit;
  }
};

// A running minimum and maximum in 64 bits.
struct WideMinMax {
  long long lo, hi;
  bool any;
  ATTN_FN void add(long long least, long long most) {
    lo = any && lo < least ? lo : least;
    hi = any && hi > most ? hi : most;
    any = true;
  }
};

// The number of blocks of 32 elements along an axis.
ATTN_FN long long blocks_of(int extent) { return (long long)(extent / 32) + (extent % 32 != 0); }

template <class T>
constexpr bool IS_I32 = false;
template <>
constexpr bool IS_I32<int> = true;

template <class T>
struct TensorQuery {
  const T* data;
  TensorBounds known;

  ATTN_FN static long long wide(u32 word) {
    if constexpr (IS_I32<T>)
      return int(word);
    else
      return word;
  }
  ATTN_FN long long value(long long index) const { return Element<T>::read(data, index); }
  ATTN_FN void add_block(WideMinMax& range, long long at) const {
    range.add(wide(load(&known.blocks[at].lo)), wide(load(&known.blocks[at].hi)));
  }

  // Calls `call` with the index of each row in the box.
  template <class F>
  ATTN_FN static void rows(const Box& box, F call) {
    for (int i = box.lo[0]; i <= box.hi[0]; ++i)
      for (int j = box.lo[1]; j <= box.hi[1]; ++j)
        for (int k = box.lo[2]; k <= box.hi[2]; ++k) call(((long long)i * box.extent[1] + j) * box.extent[2] + k);
  }

  template <int RANK>
  ATTN_FN WideMinMax over(const Box& box) const {
    const WideMinMax whole{wide(known.whole.lo), wide(known.whole.hi), true};
    WideMinMax found{0, 0, false};
    for (int axis = 0; axis < 4; ++axis)
      if (box.extent[axis] == 0) return whole;
    const long long columns = box.extent[3];
    if (box.small(0, 4, 16)) {
      rows(box, [&](long long row) {
        for (int c = box.lo[3]; c <= box.hi[3]; ++c) {
          const long long x = value(row * columns + c);
          found.add(x, x);
        }
      });
      return found;
    }
    const bool few_rows = box.small(0, 3, 8);
    if (!known.blocks) {
      if (!few_rows) return whole;
      rows(box, [&](long long row) { found.add(value(row * columns + box.lo[3]), value(row * columns + box.hi[3])); });
      return found;
    }
    const long long across = blocks_of(box.extent[3]);
    const int first = box.lo[3] / 32, last = box.hi[3] / 32;
    if constexpr (RANK <= 1) {
      int level = 0;
      while (2 << level <= last - first + 1) ++level;
      add_block(found, level * across + first);
      add_block(found, level * across + last + 1 - (1 << level));
      return found;
    }
    if (last - first >= 8) return whole;
    if (few_rows) {
      rows(box, [&](long long row) {
        for (int c = first; c <= last; ++c) add_block(found, row * across + c);
      });
      return found;
    }
    const int top = box.lo[2] / 32, bottom = box.hi[2] / 32;
    if (!box.small(0, 2, 8) || bottom - top >= 8) return whole;
    if (box.count(0) * box.count(1) * u32(bottom - top + 1) * u32(last - first + 1) > 64) return whole;
    const long long down = blocks_of(box.extent[2]);
    const long long squares = (long long)box.extent[0] * box.extent[1] * box.extent[2] * across;
    for (int i = box.lo[0]; i <= box.hi[0]; ++i)
      for (int j = box.lo[1]; j <= box.hi[1]; ++j)
        for (int r = top; r <= bottom; ++r)
          for (int c = first; c <= last; ++c)
            add_block(found, squares + (((long long)i * box.extent[1] + j) * down + r) * across + c);
    return found;
  }
};

// ---- called by masks: a tensor, its bounds, and an abstract index for each axis ----

template <class I>
ATTN_FN void set_box_axis(Box& box, int axis, int extent, I) {
  box.lo[axis] = 0, box.hi[axis] = extent - 1, box.extent[axis] = extent;
}
ATTN_FN void set_box_axis(Box& box, int axis, int extent, Interval<int> i) {
  box.lo[axis] = clamp_index(i.lo, extent), box.hi[axis] = clamp_index(i.hi, extent), box.extent[axis] = extent;
}

// The abstract value of an element, by its type.
template <class T>
struct ElementInterval {
  template <int RANK>
  static ATTN_FN Any of(const T*, const TensorBounds&, const Box&) {
    return {};
  }
};
template <class T>
struct IntElementInterval {
  template <int RANK>
  static ATTN_FN Interval<T> of(const T* data, const TensorBounds& known, const Box& box) {
    const WideMinMax found = TensorQuery<T>{data, known}.template over<RANK>(box);
    return between<T>(found.lo, found.hi);
  }
};
template <>
struct ElementInterval<int> : IntElementInterval<int> {};
template <>
struct ElementInterval<u32> : IntElementInterval<u32> {};
template <>
struct ElementInterval<u8> : IntElementInterval<u8> {};
template <class T>
struct BoolElementInterval {
  template <int RANK>
  static ATTN_FN Tristate of(const T* data, const TensorBounds& known, const Box& box) {
    const WideMinMax found = TensorQuery<T>{data, known}.template over<RANK>(box);
    return found.lo == 1 ? Tristate::True : found.hi == 0 ? Tristate::False : Tristate::Unknown;
  }
};
template <>
struct ElementInterval<bool> : BoolElementInterval<bool> {};
template <>
struct ElementInterval<PackedBits> : BoolElementInterval<PackedBits> {};

ATTN_FN Box no_box() { return {{0, 0, 0, 0}, {0, 0, 0, 0}, {1, 1, 1, 1}}; }

}  // namespace interval

template <class T>
ATTN_FN auto interval_of(const Tensor0<T>& t, const TensorBounds& known) {
  return interval::ElementInterval<T>::template of<0>(t.data, known, interval::no_box());
}
template <class T, class I>
ATTN_FN auto interval_of(const Tensor1<T>& t, const TensorBounds& known, I i) {
  interval::Box box = interval::no_box();
  interval::set_box_axis(box, 3, t.shape0, i);
  return interval::ElementInterval<T>::template of<1>(t.data, known, box);
}
template <class T, class I, class J>
ATTN_FN auto interval_of(const Tensor2<T>& t, const TensorBounds& known, I i, J j) {
  interval::Box box = interval::no_box();
  interval::set_box_axis(box, 2, t.shape0, i), interval::set_box_axis(box, 3, t.shape1, j);
  return interval::ElementInterval<T>::template of<2>(t.data, known, box);
}
template <class T, class I, class J, class K>
ATTN_FN auto interval_of(const Tensor3<T>& t, const TensorBounds& known, I i, J j, K k) {
  interval::Box box = interval::no_box();
  interval::set_box_axis(box, 1, t.shape0, i), interval::set_box_axis(box, 2, t.shape1, j);
  interval::set_box_axis(box, 3, t.shape2, k);
  return interval::ElementInterval<T>::template of<3>(t.data, known, box);
}
template <class T, class I, class J, class K, class L>
ATTN_FN auto interval_of(const Tensor4<T>& t, const TensorBounds& known, I i, J j, K k, L l) {
  interval::Box box = interval::no_box();
  interval::set_box_axis(box, 0, t.shape0, i), interval::set_box_axis(box, 1, t.shape1, j);
  interval::set_box_axis(box, 2, t.shape2, k), interval::set_box_axis(box, 3, t.shape3, l);
  return interval::ElementInterval<T>::template of<4>(t.data, known, box);
}

}  // namespace lang
