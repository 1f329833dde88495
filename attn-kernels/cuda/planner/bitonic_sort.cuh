// A bitonic sort of a CTA.
#pragma once

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
