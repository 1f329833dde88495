// A row for a long row hook: combinators call the functions that the hook passes to them, and do not inline them. A row
// calls such a function once for each element of a lane, so that inlined there would be eight copies or more. The
// headers of the language come before.
#pragma once

namespace lang {

template <class F, class... A>
ATTN_CALL auto not_inlined(F& f, A... arguments) {
  return f(arguments...);
}

template <class R>
struct CalledRow {
  R& row;

  ATTN_FN int dim() const { return row.dim(); }
  ATTN_FN float sum() const { return row.sum(); }
  ATTN_FN float sum_sq() const { return row.sum_sq(); }
  ATTN_FN float max_abs() const { return row.max_abs(); }
  template <class F>
  ATTN_FN float dot(F f) const {
    return row.dot([&](int d) { return not_inlined(f, d); });
  }
  template <class F>
  ATTN_FN void map(F f) {
    row.map([&](int d, float x) { return not_inlined(f, d, x); });
  }
  template <class T, class F>
  ATTN_FN void zip(T t, F f) {
    row.zip([&](int d) { return not_inlined(t, d); }, [&](int d, float x, float y) { return not_inlined(f, d, x, y); });
  }
  template <class F>
  ATTN_FN void rotate_half(int rot, F f) {
    row.rotate_half(rot, [&](int d) { return not_inlined(f, d); });
  }
  template <class F>
  ATTN_FN void rotate_pairs(int rot, F f) {
    row.rotate_pairs(rot, [&](int d) { return not_inlined(f, d); });
  }
};

}  // namespace lang
