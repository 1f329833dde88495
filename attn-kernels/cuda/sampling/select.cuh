// The leader's search for the shortest prefix of a row, in the order of falling values and rising ids, whose tokens or
// masses add up to a number. A bracket of values around its end is guessed from block maxima or from a sample of the
// row. One pass then sums what is above the bracket and lists the candidates within it; a radix select over the list is
// exact. A wrong guess costs passes with histograms of the whole row. Sums are of integers, so that the result is the
// same for every layout of threads.
#pragma once
#include "sampling/draw.cuh"

// Where sums over falling bins reach a number.
struct Crossing {
  bool found;
  unsigned bin;
  u64 before, within;
};

template <int THREADS>
struct Selector {
  Team<THREADS>& team;
  const Row& row;
  SampleShared& s;
  const SampleParams& p;
  Arrays arrays;
  // The listed candidates: tokens from `low` up to `above`. `before`: the sum of what is above, which blocks have as
  // masses if `summed`.
  bool listed = false, complete = false, summed = false;
  float low = NO_MASS;
  Cut above = {lang::F32_INFINITY, -1};
  u64 before = 0;

  Selector(Team<THREADS>& t, const Row& of) : team(t), row(of), s(t.s), p(of.p), arrays(t.s, of.p) {}

  static Pass pass_of(PassKind kind, Cut within) {
    Pass pass{};
    pass.kind = kind;
    pass.above = {lang::F32_INFINITY, -1};
    pass.within = within;
    pass.low = lang::F32_INFINITY;
    pass.low_key = key_of(NO_MASS), pass.high_key = 0xffffffffu;
    return pass;
  }

  // All CTAs of the cluster run a pass.
  void run(const Pass& pass) {
    __syncthreads();
    if (threadIdx.x == 0) s.pass = pass;
    cluster_sync();
    if (pass.kind == DONE) return;
    run_pass<THREADS>(p, s, row.number);
    cluster_sync();
    if (pass.kind == HISTOGRAM && (CLUSTER_CTAS > 1 || pass.sampled)) merge_histograms(pass);
    if (pass.kind == COLLECT && CLUSTER_CTAS > 1) concatenate();
  }

  // Ends the prefix of `within` whose weights reach `number`: of masses that add up to `total`, or of tokens. `reach`: the
  // tokens of the longest prefix that will be looked for. Returns whether there is one; `cut` is unchanged if not.
  bool select(Cut within, bool counts, u64 number, u64 total, int reach, Cut& cut) {
    u64 in_list = listed && complete ? sum_of_list(within, counts) : 0;
    if (in_list < number) {
      if (listed && complete && low <= within.value) return false;
      guess(within, counts, number, total, reach);
      collect(within, counts);
      in_list = listed ? sum_of_list(within, counts) : 0;
      bool beyond = listed && number > before + in_list;
      if (beyond && low <= within.value) return false;
      u64 ties = 0;
      if ((!listed || number <= before || beyond) && !narrow(within, counts, number, ties)) return false;
      if (ties) {
        cut = of_ties(within, ties);
        return true;
      }
    }
    cut = of_list(within, counts, number - before);
    return true;
  }

  // Makes blocks have the masses of what `cut` has; returns their sum.
  u64 weigh(Cut cut) {
    if (listed && cut.value >= low && (complete || (summed && cut.value <= above.value))) {
      if (complete)
        for (int i = threadIdx.x; i < arrays.blocks; i += THREADS) arrays.sums[i] = 0;
      __syncthreads();
      for (int i = threadIdx.x; i < static_cast<int>(s.candidates); i += THREADS)
        if (cut.has(arrays.values[i], arrays.ids[i]))
          atomicAdd(&arrays.sums[arrays.ids[i] / BLOCK_TOKENS], row.mass(arrays.values[i]));
      __syncthreads();
      summed = false;
    } else {
      Pass pass = pass_of(COLLECT, cut);
      pass.above = cut, pass.sums = true;
      run(pass);
      listed = false;
    }
    return Finder<THREADS>(team, row).sum({KEPT, cut});
  }

  // Lists what `cut` has, at most as many tokens as the list takes. Returns whether the list has nothing else.
  bool list(Cut cut) {
    if (listed && complete && low <= cut.value) return false;
    low = cut.value, above = {lang::F32_INFINITY, -1}, complete = true;
    collect(cut, true);
    return true;
  }

 private:
  // Lists the bracket.
  void collect(Cut within, bool counts) {
    Pass pass = pass_of(COLLECT, within);
    pass.above = above, pass.low = low, pass.counts = counts, pass.sums = !complete;
    run(pass);
    listed = s.candidates <= static_cast<unsigned>(p.capacity);
    before = complete ? 0 : Finder<THREADS>(team, row).sum({KEPT, above});
    summed = !complete && !counts;
  }

  u64 sum_of_list(Cut within, bool counts) {
    u64 mine = 0;
    for (int i = threadIdx.x; i < static_cast<int>(s.candidates); i += THREADS) {
      float x = arrays.values[i];
      if (within.has(x, arrays.ids[i])) mine += counts ? 1 : row.mass(x);
    }
    return team.sum(mine);
  }

  // Sets the bracket.
  void guess(Cut within, bool counts, u64 number, u64 total, int reach) {
    low = NO_MASS, above = {lang::F32_INFINITY, -1}, complete = true;
    if (p.vocab <= p.capacity || row.settled) return;
    int groups = min(arrays.blocks, GROUPS);
    if (counts && max(static_cast<u64>(reach), number) <= static_cast<u64>(groups) * 3 / 4) {
      low = bound(max(reach, static_cast<int>(number)));
      return;
    }
    if (!counts) {
      // few tokens may have the mass
      float least = bound(max(groups / 4, 1));
      u64 mine = 0;
      for (int i = threadIdx.x; i < GROUPS; i += THREADS) {
        float x = value_of(s.maxima[i]);
        if (x >= least && x > NO_MASS) mine += row.mass(x);
      }
      if (team.sum(mine) >= number) {
        low = least;
        return;
      }
    }
    Pass pass = pass_of(HISTOGRAM, within);
    pass.coarse = pass.sampled = true, pass.counts = counts;
    run(pass);
    u64 sampled, tokens;
    cross(false, 0, sampled);
    if (!counts && total) {
      float share = static_cast<float>(number) / static_cast<float>(total);
      number = static_cast<u64>(share * static_cast<float>(sampled));
    }
    Crossing at = cross(false, max(number, u64{1}), sampled);
    unsigned bin = at.found ? at.bin : BINS - 1;
    u64 mine = 0;
    for (unsigned i = threadIdx.x; i <= bin; i += THREADS) mine += i < bin ? s.tokens[i] : s.tokens[i] / 2;
    u64 middle = team.sum(mine), margin = static_cast<u64>(p.capacity) * 3 / 8;
    Crossing first = cross(true, middle > margin ? middle - margin : 0, tokens), last = cross(true, middle + margin, tokens);
    if (first.found) {
      complete = false;
      above = {value_of(end_of_bin(min(first.bin + 1, bin), true)), -1};
    }
    if (last.found) low = value_of(end_of_bin(max(last.bin - 1, bin), false));
  }

  // Narrows the bracket with histograms until its end is listed, or until it is one value: then `ties` is how many of
  // its tokens the prefix has.
  bool narrow(Cut within, bool counts, u64 number, u64& ties) {
    Pass pass = pass_of(HISTOGRAM, within);
    pass.coarse = true, pass.counts = counts;
    before = 0;
    Crossing at;
    unsigned tokens;
    do {
      run(pass);
      u64 sum;
      at = cross(false, number - before, sum);
      if (!at.found) return false;
      before += at.before;
      tokens = s.tokens[at.bin];
      if (pass.coarse) {
        pass.high_key = end_of_bin(at.bin, true), pass.low_key = end_of_bin(at.bin, false);
        pass.coarse = false;
      } else {
        pass.high_key -= at.bin << pass.shift;
        pass.low_key = max(pass.low_key, pass.high_key - min(pass.high_key, (1u << pass.shift) - 1));
      }
      pass.shift = shift_of(pass.low_key, pass.high_key);
    } while (tokens > static_cast<unsigned>(p.capacity) && pass.low_key < pass.high_key);
    low = value_of(pass.low_key), above = {value_of(pass.high_key), -1}, complete = false;
    if (tokens <= static_cast<unsigned>(p.capacity)) {
      collect(within, counts);
      return true;
    }
    listed = false;
    u64 each = counts ? 1 : row.mass(low);
    ties = (number - before + each - 1) / each;
    if (ties * each >= at.within) ties = ALL_IDS;
    return true;
  }

  // The prefix that ends with a number of tokens of the bracket's only value.
  Cut of_ties(Cut within, u64 ties) {
    Cut cut{low, ALL_IDS};
    if (ties == ALL_IDS) return cut;
    Pass pass = pass_of(COLLECT, within);
    pass.above = {low, within.value == low ? within.id : ALL_IDS}, pass.sums = pass.ties = true;
    run(pass);
    cut.id = Finder<THREADS>(team, row).find({TIES, cut}, ties - 1).id;
    return cut;
  }

  static int shift_of(unsigned least, unsigned greatest) {
    return greatest > least ? max(32 - __clz(greatest - least) - 10, 0) : 0;
  }

  // Ends the prefix of the list whose weights reach a number, which the list has: by values, then by ids of ties.
  Cut of_list(Cut within, bool counts, u64 number) {
    unsigned high = key_of(fminf(above.value, row.greatest)), least = key_of(low);
    Cut cut{0.f, ALL_IDS};
#pragma unroll 1
    for (int by_id = 0; by_id < 2; ++by_id) {
      Crossing at{};
#pragma unroll 1
      for (int shift;; high -= at.bin << shift, least = max(least, high - min(high, (1u << shift) - 1))) {
        shift = shift_of(least, high);
        for (int i = threadIdx.x; i < BINS; i += THREADS) s.low[i] = s.high[i] = s.tokens[i] = 0;
        __syncthreads();
        for (int i = threadIdx.x; i < static_cast<int>(s.candidates); i += THREADS) {
          float x = arrays.values[i];
          int id = arrays.ids[i];
          unsigned key = by_id ? ~static_cast<unsigned>(id) : key_of(x);
          if (key < least || key > high || (by_id && x != cut.value) || !within.has(x, id)) continue;
          u64 weight = by_id || counts ? 1 : row.mass(x);
          if (weight) add_to_bin(s, (high - key) >> shift, weight);
        }
        u64 sum;
        at = cross(false, number, sum);
        number -= at.before;
        if (high == least || !at.found) break;
        if (shift == 0) {
          high -= at.bin, least = high;
          break;
        }
      }
      if (by_id) {
        cut.id = static_cast<int>(~high);
      } else {
        cut.value = value_of(high);
        u64 each = counts ? 1 : row.mass(cut.value);
        u64 ties = (number + each - 1) / each;
        if (ties * each >= at.within) break;
        number = ties, high = 0xffffffffu, least = ~static_cast<unsigned>(p.vocab);
      }
    }
    return cut;
  }

  // The bin in which sums of weights, or of tokens, reach a number; and the sum of all.
  Crossing cross(bool tokens, u64 number, u64& total) {
    constexpr int EACH = BINS / THREADS;
    __syncthreads();
    if (threadIdx.x == 0) s.crossing[0] = 0;
    auto weight = [&](int i) {
      int bin = threadIdx.x * EACH + i;
      return tokens ? s.tokens[bin] : static_cast<u64>(s.high[bin]) << 32 | s.low[bin];
    };
    u64 mine = 0;
#pragma unroll
    for (int i = 0; i < EACH; ++i) mine += weight(i);
    u64 first = team.before(mine, total);
    if (first < number && number <= first + mine) {
#pragma unroll 1
      for (int i = 0; i < EACH; ++i) {
        u64 of_bin = weight(i);
        if (number <= first + of_bin) {
          s.crossing[0] = static_cast<u64>(threadIdx.x * EACH + i) << 1 | 1;
          s.crossing[1] = first, s.crossing[2] = of_bin;
          break;
        }
        first += of_bin;
      }
    }
    __syncthreads();
    return {s.crossing[0] != 0, static_cast<unsigned>(s.crossing[0] >> 1), s.crossing[1], s.crossing[2]};
  }

  // A bound that at least `k` values reach: the k-th of the maxima of groups of blocks.
  float bound(int k) {
    __syncthreads();
    for (int i = threadIdx.x; i < GROUPS; i += THREADS) {
      float most = NOT_ALLOWED;
      for (int block = i; block < arrays.blocks; block += GROUPS) most = fmaxf(most, row.of_block(arrays.maxima[block]));
      s.maxima[i] = key_of(most);
    }
    if (threadIdx.x == 0) s.bound = 0xffffffffu;
    __syncthreads();
    for (int of = threadIdx.x; of < GROUPS; of += THREADS) {
      unsigned key = s.maxima[of];
      int greater = 0;
#pragma unroll 4
      for (int i = 0; i < GROUPS; i += 4) {
        uint4 four = *reinterpret_cast<const uint4*>(s.maxima + i);
        greater += (four.x > key) + (four.y > key) + (four.z > key) + (four.w > key);
      }
      if (greater < k) atomicMin(&s.bound, key);
    }
    __syncthreads();
    return fmaxf(value_of(s.bound), NO_MASS);
  }

  // The value at the least or the greatest key of a coarse bin.
  unsigned end_of_bin(unsigned bin, bool greatest) const {
    // neither NaN nor an infinity
    unsigned from = FROM_PROBS ? 0x80800000u : 0x00800000u, to = key_of(row.greatest);
#pragma unroll 1
    while (from < to) {
      unsigned middle = from + (to - from) / 2 + greatest;
      unsigned at = coarse_bin(row, value_of(middle));
      if (greatest ? at >= bin : at > bin)
        from = middle + !greatest;
      else
        to = middle - greatest;
    }
    return from;
  }

  // Adds up the histograms of all CTAs. Of a sample, bins have halves of sums, and numbers of tokens follow from masses.
  void merge_histograms(const Pass& pass) {
    for (int bin = threadIdx.x; bin < BINS; bin += THREADS) {
      u64 sum = 0;
      unsigned tokens = 0;
      for (int cta = 0; cta < CLUSTER_CTAS; ++cta) {
        sum += static_cast<u64>(*of_cta(&s.high[bin], cta)) << (pass.sampled ? SAMPLE_BITS : 32);
        sum += *of_cta(&s.low[bin], cta);
        tokens += *of_cta(&s.tokens[bin], cta);
      }
      if (pass.sampled) {
        constexpr float OF_BIN = FROM_PROBS ? 1.f / 16.f : 1.f / BINS_PER_LOG2;
        float each = pass.counts ? 1.f : exp2f(static_cast<float>(bin) * OF_BIN - 36.f);
        sum <<= p.sample_shift;
        tokens = static_cast<unsigned>(fminf(static_cast<float>(sum) * each, 1e9f));
      }
      s.low[bin] = static_cast<unsigned>(sum), s.high[bin] = static_cast<unsigned>(sum >> 32), s.tokens[bin] = tokens;
    }
    __syncthreads();
  }

  // Appends the lists of the other CTAs.
  void concatenate() {
    unsigned count = s.candidates, capacity = p.capacity;
    __syncthreads();
    for (int cta = 1; cta < CLUSTER_CTAS; ++cta) {
      unsigned more = *of_cta(&s.candidates, cta);
      if (count + more <= capacity) {
        const float* values = of_cta(arrays.values, cta);
        const int* ids = of_cta(arrays.ids, cta);
        for (unsigned i = threadIdx.x; i < more; i += THREADS)
          arrays.values[count + i] = values[i], arrays.ids[count + i] = ids[i];
      }
      count += more;
    }
    if (threadIdx.x == 0) s.candidates = count;
    __syncthreads();
  }
};
