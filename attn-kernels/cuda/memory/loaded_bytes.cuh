// Bytes of a stored row that are loaded at one time and decoded at another. `decode` of a KV format runs over them more
// than once: the first time it loads, and nothing uses what it gives; then it reads the same numbers in the same order.
#pragma once
#include "lang/packed.cuh"

// The numbers that `decode` reads for eight elements. Registers hold them, if its loops are unrolled. More than MAX are
// loaded again.
struct LoadedNumbers {
  static constexpr int MAX = 16;
  unsigned x[MAX];
  int count = 0;
};

template <int ALIGNMENT, bool LOADED>
struct LoadedBytes : PackedBytes<LoadedBytes<ALIGNMENT, LOADED>> {
  GlobalBytes<ALIGNMENT> row;
  LoadedNumbers* numbers;

  LoadedBytes(GlobalBytes<ALIGNMENT> row, LoadedNumbers& numbers) : row(row), numbers(&numbers) {}
  ATTN_FN lang::u32 load_1(int i) const {
    return number([&] { return row.load_1(i); });
  }
  ATTN_FN lang::u32 load_2(int i) const {
    return number([&] { return row.load_2(i); });
  }
  ATTN_FN lang::u32 load_4(int i) const {
    return number([&] { return row.load_4(i); });
  }
  ATTN_FN Array<lang::u32, 2> load_8(int i) const {
    lang::u32 first = number([&] { return row.load_8(i).x[0]; });
    lang::u32 second = number([&] { return row.load_8(i).x[1]; });
    return {{first, second}};
  }

 private:
  template <class Load>
  ATTN_FN lang::u32 number(Load load) const {
    int n = numbers->count++;
    if (n >= LoadedNumbers::MAX) return load();
    if constexpr (!LOADED) numbers->x[n] = load();
    return numbers->x[n];
  }
};
