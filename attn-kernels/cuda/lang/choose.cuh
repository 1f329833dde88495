// Choices among types.
#pragma once

template <class A, class B>
constexpr bool SAME = false;
template <class A>
constexpr bool SAME<A, A> = true;

template <bool FIRST, class A, class B>
struct ChooseOf {
  using Type = A;
};
template <class A, class B>
struct ChooseOf<false, A, B> {
  using Type = B;
};
// A if FIRST, else B.
template <bool FIRST, class A, class B>
using Choose = typename ChooseOf<FIRST, A, B>::Type;
