// Sums over lanes of many values at once. A butterfly for each value leaves every sum in every lane and costs log2(LANES)
// shuffles a value; here lanes give half of their values away at each step, so that COUNT sums cost about COUNT
// shuffles and each ends in the one place where the softmax then works on it.
#pragma once

#include "rows.cuh"

template <int LANES, int COUNT> struct SpreadSum {
  static_assert((COUNT & (COUNT - 1)) == 0, "halving");
  static constexpr int PER_LANE = COUNT > LANES ? COUNT / LANES : 1;
  static constexpr int COPIES = COUNT < LANES ? LANES / COUNT : 1;  // neighbouring lanes that end with the same sum

  // Number of the first sum that a lane ends with; the others follow.
  static int first(int lane) { return lane / COPIES * PER_LANE; }
  // The lane that ends with a sum, and where it is there.
  static constexpr int lane_of(int sum) { return sum / PER_LANE * COPIES; }
  static constexpr int place_of(int sum) { return sum % PER_LANE; }

  // The sums end in values[0 .. PER_LANE].
  static void run(float (&values)[COUNT], int lane) { halve<COUNT, LANES / 2>(values, lane); }

 private:
  template <int LEFT, int STEP> static void halve(float (&values)[COUNT], int lane) {
    if constexpr (STEP > 0) {
      if constexpr (LEFT > 1) {
        bool upper = lane & STEP;  // this lane keeps the upper half of the values
#pragma unroll
        for (int i = 0; i < LEFT / 2; ++i) {
          float keep = upper ? values[i + LEFT / 2] : values[i];
          float give = upper ? values[i] : values[i + LEFT / 2];
          values[i] = keep + __shfl_xor_sync(ALL_LANES, give, STEP);
        }
        halve<LEFT / 2, STEP / 2>(values, lane);
      } else {
        values[0] += __shfl_xor_sync(ALL_LANES, values[0], STEP);
        halve<1, STEP / 2>(values, lane);
      }
    }
  }
};
