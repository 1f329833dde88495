#pragma once

// Bisects for the run of tokens that contains a token, out of `count` runs. `ends`: one past the last token of each.
template <class T>
inline int run_of_token(const int* ends, int count, T token) {
  int first = 0, last = count - 1;
  while (first < last) {
    int middle = (first + last) / 2;
    if (token < ends[middle])
      last = middle;
    else
      first = middle + 1;
  }
  return first;
}
