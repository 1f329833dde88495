// Stable sorts of a CTA: few numbers are ranked by counting, more by digits.
#pragma once
#include "lang/int_fn.cuh"

// Memory of a sort. attn-kernels/src/launch/planner_scratch.rs computes its size.
struct SortBuffers {
  unsigned* counters;  // [SORT_COUNTERS], at least a thread's
  unsigned* numbers;   // [2 * numbers], aligned to 8 bytes
};
constexpr int SORT_COUNTERS = 1024;

// As many are ranked by counting, if a key of 32 bits holds the weight and the number.
constexpr unsigned FEW_NUMBERS = 512;

template <class Cta>
bool are_few(unsigned count, unsigned long long most) {
  return count <= min(FEW_NUMBERS, static_cast<unsigned>(Cta::THREADS)) && most < 0xffffffff / FEW_NUMBERS;
}

// Adds up, for each of few numbers, the values of those before it in the order of `sort_numbers`. The sums are in the
// counters. All threads of the CTA call it.
template <class Cta, class Weight, class Value>
const unsigned* sums_before(Cta& cta, const SortBuffers& memory, unsigned count, unsigned long long most,
                            const Weight& weight, const Value& value) {
  struct alignas(8) Entry {
    unsigned key, value;
  };
  auto* entries = reinterpret_cast<Entry*>(memory.numbers);
  unsigned* sums = memory.counters;
  unsigned thread = cta.thread();
  if (thread < count) {
    entries[thread] = {static_cast<unsigned>(most - weight(thread)) * FEW_NUMBERS + thread, value(thread)};
    sums[thread] = 0;
  }
  cta.sync();
  // several threads a number, each with a share of the others; a warp has one share
  unsigned bits = 32 - __clz(max(count, 32u) - 1), own = thread & ((1u << bits) - 1);
  unsigned share = ((count << bits) + Cta::THREADS - 1) / Cta::THREADS, first = (thread >> bits) * share;
  if (own < count) {
    unsigned key = entries[own].key, end = min(first + share, count), sum = 0;
#pragma unroll 4
    for (unsigned other = first; other < end; ++other) sum += entries[other].key < key ? entries[other].value : 0;
    atomicAdd(&sums[own], sum);
  }
  cta.sync();
  return sums;
}

// Digits of five bits, so that a CTA has one counter a thread: of a digit in a warp's share of the numbers.
template <class Cta>
class DigitSort {
  static constexpr unsigned ALL_LANES = 0xffffffff;
  static constexpr int BITS = 5, WARPS = Cta::THREADS / 32;

  Cta& cta_;
  unsigned* counters_;
  unsigned count_, share_;  // numbers, and those of a warp: consecutive ones

  // The lanes that have the same digit.
  static unsigned same_digit(unsigned digit, bool has) {
    unsigned same = __ballot_sync(ALL_LANES, has);
#pragma unroll
    for (int bit = 0; bit < BITS; ++bit) {
      bool one = digit >> bit & 1;
      unsigned ones = __ballot_sync(ALL_LANES, one);
      same &= one ? ones : ~ones;
    }
    return same;
  }

  // Of some lanes those below this one.
  unsigned below(unsigned lanes) const { return lanes & ((1u << cta_.thread() % 32) - 1); }

  unsigned* counter(unsigned digit) const { return counters_ + digit * WARPS + cta_.thread() / 32; }

  // Calls `then` with each index of the warp's share; all lanes take part.
  template <class Then>
  void for_share(const Then& then) const {
    unsigned first = cta_.thread() / 32 * share_, lane = cta_.thread() % 32;
#pragma unroll 1
    for (unsigned index = first + lane; index < first + share_; index += 32) then(index, index < count_);
  }

 public:
  DigitSort(Cta& cta, unsigned* counters, unsigned count)
      : cta_(cta), counters_(counters), count_(count), share_((count + Cta::THREADS - 1) / Cta::THREADS * 32) {}

  // Brings numbers into the order of a digit; equal ones keep their order.
  template <class Number, class Digit>
  void pass(const Number& number_at, const Digit& digit_of, unsigned* to) {
    unsigned& own = counters_[cta_.thread()];
    own = 0;
    cta_.sync();
    for_share([&](unsigned index, bool has) {
      unsigned digit = has ? digit_of(number_at(index)) : 0, same = same_digit(digit, has);
      if (has && below(same) == 0) *counter(digit) += lang::count_ones(same);
      __syncwarp();
    });
    cta_.sync();
    unsigned long long all, before = cta_.exclusive_sum(own, Cta::THREADS, all);
    own = static_cast<unsigned>(before);
    cta_.sync();
    for_share([&](unsigned index, bool has) {
      unsigned number = has ? number_at(index) : 0, digit = has ? digit_of(number) : 0;
      unsigned same = same_digit(digit, has), first = *counter(digit), at = first + lang::count_ones(below(same));
      __syncwarp();
      if (has) to[at] = number;
      if (has && at == first) *counter(digit) = first + lang::count_ones(same);
      __syncwarp();
    });
    cta_.sync();
  }
};

// Sorts the numbers 0 .. count by their weights, the greatest first. Those of equal weight keep their order. Weights
// are at most `most`, which is less than 2^55. All threads of the CTA call it.
template <class Cta, class Weight>
const unsigned* sort_numbers(Cta& cta, const SortBuffers& memory, unsigned count, unsigned long long most,
                             const Weight& weight) {
  unsigned *numbers = memory.numbers, *others = numbers + count;
  if (are_few<Cta>(count, most)) {
    unsigned own = cta.thread();
    const unsigned* before = sums_before(cta, memory, count, most, weight, [](unsigned) { return 1u; });
    if (own < count) numbers[before[own]] = own;
    cta.sync();
    return numbers;
  }
  DigitSort<Cta> sort(cta, memory.counters, count);
  bool is_first = true;
#pragma unroll 1
  for (int shift = 0; is_first || most >> shift > 0; shift += 5) {
    auto number_at = [&](unsigned index) { return is_first ? index : numbers[index]; };
    auto digit_of = [&](unsigned number) { return static_cast<unsigned>((most - weight(number)) >> shift & 31); };
    sort.pass(number_at, digit_of, others);
    unsigned* sorted = others;
    others = numbers, numbers = sorted, is_first = false;
  }
  return numbers;
}
