// Bisection of the planner.
#pragma once

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
