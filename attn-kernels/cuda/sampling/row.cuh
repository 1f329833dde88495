// A row of tokens in blocks of 512, which one warp reads. Blocks of a CTA go round its warps.
#pragma once
#include "sampling/shared.cuh"

// Tokens of a lane: STEPS groups of four, 128 tokens apart.
constexpr int STEPS = BLOCK_TOKENS / 128;

// Order of floats as unsigned numbers; both zeros are one.
inline unsigned key_of(float x) {
  unsigned bits = __float_as_uint(x);
  if (bits == 0x80000000u) bits = 0;
  return bits >> 31 ? ~bits : bits | 0x80000000u;
}
inline float value_of(unsigned key) { return __uint_as_float(key >> 31 ? key & 0x7fffffffu : ~key); }

template <class T>
inline T of_row(const T* rows, int row, T all) {
  return rows ? rows[row] : all;
}

constexpr float NOT_ALLOWED = -lang::F32_INFINITY;
// The greatest value of a token that is never drawn.
constexpr float NO_MASS = FROM_PROBS ? 0.f : NOT_ALLOWED;
// What +inf stands for.
constexpr float CERTAIN = FROM_PROBS ? 1.f : 0.f;

// The values of a block that a lane has: token `first + 128 * step + i` is x[4 * step + i].
struct Values {
  int first;
  float x[4 * STEPS];
  int id(int index) const { return first + index / 4 * 128 + index % 4; }
};

// Four elements as they are in memory.
using RawWords = typename Word<4 * sizeof(SampleElem)>::type;
template <class E>
inline float4 floats_of(typename Word<4 * sizeof(E)>::type words) {
  if constexpr (sizeof(E) == 4) {
    return {__uint_as_float(words.x), __uint_as_float(words.y), __uint_as_float(words.z), __uint_as_float(words.w)};
  } else {
    float2 a = unpack2<E>(words.x), b = unpack2<E>(words.y);
    return {a.x, a.y, b.x, b.y};
  }
}
template <class E>
inline typename Word<4 * sizeof(E)>::type words_of(float a, float b, float c, float d) {
  if constexpr (sizeof(E) == 4)
    return {__float_as_uint(a), __float_as_uint(b), __float_as_uint(c), __float_as_uint(d)};
  else
    return {pack2<E>(a, b), pack2<E>(c, d)};
}

// Penalties of the logits of four tokens from `id` on. It is a call, since most runs have none.
__noinline__ float4 penalised4(const SampleParams& p, int row, int id, float4 x) {
  const unsigned* counts = p.counts + static_cast<long long>(row) * p.vocab + id;
  int left = p.vocab - id;
  uint4 n = {};
  if (p.counts_wide && left >= 4)
    n = *reinterpret_cast<const uint4*>(counts);
  else
    n = {left > 0 ? counts[0] : 0u, left > 1 ? counts[1] : 0u, left > 2 ? counts[2] : 0u, left > 3 ? counts[3] : 0u};
  if ((n.x | n.y | n.z | n.w) == 0) return x;
  float repetition = of_row(p.repetition, row, p.all_repetition);
  float presence = of_row(p.presence, row, p.all_presence);
  float frequency = of_row(p.frequency, row, p.all_frequency);
  auto of = [&](float y, unsigned count) {
    return lang::sampling::penalised(y, count, repetition, presence, frequency);
  };
  return {of(x.x, n.x), of(x.y, n.y), of(x.z, n.z), of(x.w, n.w)};
}

struct Row {
  const SampleParams& p;
  int number, source;  // rows of the results and of the source
  float greatest, to_log2;
  bool settled;  // whether +inf stands for all probability

  Row(const SampleParams& params, const SampleShared& s, int row)
      : p(params), number(row), greatest(s.greatest), to_log2(s.to_log2), settled(s.settled) {
    source = of_row(p.indices, row, row);
    if (!exists()) source = 0;
  }
  bool exists() const {
    int wanted = of_row(p.indices, number, number);
    return 0 <= wanted && wanted < p.sources;
  }

  // Four elements from `id` on, as they are in memory. Tokens past the last are not allowed.
  RawWords fetch4(int id) const {
    const SampleElem* from = static_cast<const SampleElem*>(p.source) + source * p.source_row + id;
    if (p.wide && id + 4 <= p.vocab) return *reinterpret_cast<const RawWords*>(from);
    auto at = [&](int i) { return id + i < p.vocab ? to_float(from[i]) : NOT_ALLOWED; };
    return words_of<SampleElem>(at(0), at(1), at(2), at(3));
  }
  // Their values, with penalties and mask.
  float4 finish4(int id, RawWords raw) const {
    float4 x = floats_of<SampleElem>(raw);
    if (p.penalties && id < p.vocab) x = penalised4(p, number, id, x);
    if (p.token_mask && id < p.vocab) {
      unsigned allowed = p.token_mask[static_cast<long long>(number) * ((p.vocab + 31) / 32) + id / 32] >> id % 32;
      if (!(allowed & 1)) x.x = NOT_ALLOWED;
      if (!(allowed & 2)) x.y = NOT_ALLOWED;
      if (!(allowed & 4)) x.z = NOT_ALLOWED;
      if (!(allowed & 8)) x.w = NOT_ALLOWED;
    }
    return x;
  }

  static int first_of(int block) { return block * BLOCK_TOKENS + static_cast<int>(threadIdx.x) % 32 * 4; }
  void fetch(int block, RawWords (&raw)[STEPS]) const {
#pragma unroll
    for (int step = 0; step < STEPS; ++step) raw[step] = fetch4(first_of(block) + 128 * step);
  }
  Values finish(int block, const RawWords (&raw)[STEPS]) const {
    Values v;
    v.first = first_of(block);
#pragma unroll
    for (int step = 0; step < STEPS; ++step) {
      float4 x = finish4(v.first + 128 * step, raw[step]);
      v.x[4 * step] = x.x, v.x[4 * step + 1] = x.y, v.x[4 * step + 2] = x.z, v.x[4 * step + 3] = x.w;
    }
    return v;
  }
  float4 settled4(float4 x) const {
    if (!settled) return x;
    auto of = [](float y) { return y == lang::F32_INFINITY ? CERTAIN : NO_MASS; };
    return {of(x.x), of(x.y), of(x.z), of(x.w)};
  }
  static void settle(Values& v) {
#pragma unroll
    for (float& x : v.x) x = x == lang::F32_INFINITY ? CERTAIN : NO_MASS;
  }
  // The greatest value of a block, as it counts.
  float of_block(float maximum) const {
    return settled ? (maximum == lang::F32_INFINITY ? CERTAIN : NO_MASS) : maximum;
  }

  u64 mass(float x) const {
    return FROM_PROBS ? lang::sampling::mass_of_prob(x, greatest)
                      : lang::sampling::mass_of_logit(x - greatest, to_log2);
  }
  // Mass relative to the greatest value of the block.
  unsigned block_mass(float x, float maximum) const {
    return FROM_PROBS ? lang::sampling::block_mass_of_prob(x, maximum)
                      : lang::sampling::block_mass_of_logit(x - maximum, to_log2);
  }
  // The mass of a sum of those.
  u64 scaled(u64 sum, float maximum) const {
    return FROM_PROBS ? lang::sampling::mass_of_block_of_probs(sum, maximum, greatest)
                      : lang::sampling::mass_of_block_of_logits(sum, maximum - greatest, to_log2);
  }
  float log_prob(float x, float inverse, u64 sum) const {
    return FROM_PROBS ? lang::sampling::share_of(mass(x), sum) : lang::sampling::log_prob(x - greatest, inverse, sum);
  }
  float prob(float x, float scale) const {
    return FROM_PROBS ? lang::sampling::prob_of_prob(x, greatest, scale)
                      : lang::sampling::prob_of_logit(x - greatest, to_log2, scale);
  }
};
