// Bisection of the planner.
#pragma once

// Of numbers between `yes`, for which a condition holds, and `no`, for which it does not: the last for which it holds.
template <class Holds>
int bisect(int yes, int no, const Holds& holds) {
#pragma unroll 1
  while (no - yes > 1) {
    int middle = yes + (no - yes) / 2;
    (holds(middle) ? yes : no) = middle;
  }
  return yes;
}

// The number of entries at the front of `count`, for which a condition holds; it holds for none behind them.
template <class Holds>
unsigned partition_point(unsigned count, const Holds& holds) {
  unsigned begin = 0, end = count;
#pragma unroll 1
  while (begin < end) {
    unsigned middle = (begin + end) / 2;
    if (holds(middle)) {
      begin = middle + 1;
    } else {
      end = middle;
    }
  }
  return begin;
}
