// What the tile classifier needs for values with parts and for loops, beside interval.cuh: only variants that use it
// have it in their text. On the host: attn-core/src/lang/interval/parts.rs.
#pragma once

namespace lang {
namespace interval {

using Truth = Tristate;

// The part that `get` gives; unknown if there is none.
template <class T, class F>
ATTN_FN auto part_or_any(const T& of, F get, int) -> decltype(get(of)) {
  return get(of);
}
template <class T, class F>
ATTN_FN Any part_or_any(const T&, F, long) {
  return {};
}
template <class T, class F>
ATTN_FN auto part(const T& of, F get) {
  return part_or_any(of, get, 0);
}

ATTN_FN bool same(Tristate a, Tristate b) { return a == b; }
template <class T>
ATTN_FN bool same(Interval<T> a, Interval<T> b) {
  return a.lo == b.lo && a.hi == b.hi && a.known == b.known && a.value == b.value;
}
ATTN_FN Tristate unknown(Tristate) { return Tristate::Unknown; }
template <class T>
ATTN_FN Interval<T> unknown(Interval<T>) {
  return full<T>();
}

// The values after `for i in from..to`, of those before it: `step` makes one step. Few steps are made one by one.
// Otherwise the values are those that no further step changes.
template <class A, class B, class S, class F>
ATTN_FN S repeated(A, B, bool, S state, F) {
  return state.unknown();
}
template <class A, class B, class S, class F>
ATTN_FN S repeated(Interval<A> from, Interval<B> to, bool inclusive, S state, F step) {
  using T = Join<A, B>;
  constexpr i64 MOST_STEPS = 64;
  const i64 first = to_i64(from.lo), end = to_i64(to.lo) + inclusive, end_most = to_i64(to.hi) + inclusive;
  if (from.lo == from.hi && end == end_most && end - first <= MOST_STEPS) {
    for (i64 i = first; i < end; ++i) state = step(between<T>(i, i), state);
    return state;
  }
  if (end_most <= first) return state;
  const Interval<T> any_step = between<T>(first, end_most - 1);
  for (int round = 0;; ++round) {
    const S joined = state.joined(step(any_step, state));
    if (joined.same(state)) return state;
    state = round < 3 ? joined : state.widened(joined);
  }
}

}  // namespace interval
}  // namespace lang
