// A bitonic sort of a CTA, and numbers in the order of their weights.
#pragma once
#include "lang/int_fn.cuh"

// Sorts `count` keys, a power of two, in ascending order. All threads of the CTA call it.
template <class Cta, class Key>
void bitonic_sort(Cta& cta, Key* keys, unsigned count) {
#pragma unroll 1
  for (unsigned run = 2; run <= count; run *= 2) {
#pragma unroll 1
    for (unsigned step = run / 2; step > 0; step /= 2) {
#pragma unroll 1
      for (unsigned pair = cta.thread(); pair < count / 2; pair += Cta::THREADS) {
        unsigned low = 2 * pair - (pair & (step - 1)), high = low + step;
        Key a = keys[low], b = keys[high];
        bool ascends = (low & run) == 0;
        if ((a > b) == ascends) keys[low] = b, keys[high] = a;
      }
      // a warp has 64 neighbours in every step of up to 32
      unsigned next = step > 1 ? step / 2 : run;
      if (step > 32 || next > 32) {
        cta.sync();
      } else {
        __syncwarp();
      }
    }
  }
  cta.sync();
}

// Numbers that are sorted: each key has one in its low `bits`.
template <class Key>
class SortedNumbers {
  const Key* keys_;
  int bits_;

 public:
  SortedNumbers(const Key* keys, int bits) : keys_(keys), bits_(bits) {}
  int at(unsigned index) const { return static_cast<int>(keys_[index] & ~(~Key(0) << bits_)); }
};

template <class Key, class Cta, class Weight>
SortedNumbers<Key> sort_numbers(Cta& cta, void* memory, unsigned count, unsigned entries, const Weight& weight) {
  Key* keys = static_cast<Key*>(memory);
  constexpr Key ALL = ~Key(0);
  int bits = 31 - __clz(entries);
#pragma unroll 1
  for (unsigned number = cta.thread(); number < entries; number += Cta::THREADS)
    keys[number] = number < count ? ((ALL >> bits) - weight(number)) << bits | number : ALL;
  cta.sync();
  bitonic_sort(cta, keys, entries);
  return {keys, bits};
}

// Sorts the numbers 0 .. count by their weights, the greatest first, and calls `then` with the SortedNumbers. Those of
// equal weight keep their order. Weights are at most `most`: where 32 bits hold a weight and a number, keys have 32.
template <class Cta, class Weight, class Then>
void with_sorted(Cta& cta, void* memory, unsigned count, unsigned long long most, const Weight& weight,
                 const Then& then) {
  unsigned entries = lang::next_power_of_two(max(count, 2u));
  if (most <= ~0u >> (31 - __clz(entries))) {
    then(sort_numbers<unsigned>(cta, memory, count, entries, weight));
  } else {
    then(sort_numbers<unsigned long long>(cta, memory, count, entries, weight));
  }
}
