// A row of tokens: each CTA of a cluster has a slice of them, in shared memory if it fits, and each warp a segment of
// the slice, so that sums of warps are in the order of ids. Slices and segments are whole blocks.
#pragma once
#include "sampling/shared.cuh"

// Order of floats as unsigned numbers; both zeros are one.
inline unsigned key_of(float x) {
  unsigned bits = __float_as_uint(x);
  if (bits == 0x80000000u) bits = 0;
  return bits >> 31 ? ~bits : bits | 0x80000000u;
}
inline float value_of(unsigned key) { return __uint_as_float(key >> 31 ? key & 0x7fffffffu : ~key); }

// The first tokens in the order of falling values and rising ids.
struct Cut {
  float value;
  int id;
  bool has(float x, int token) const { return x > value || (x == value && token <= id); }
};
constexpr int ALL_IDS = 0x7fffffff;
inline Cut shorter(Cut a, Cut b) {
  if (a.value == b.value) return a.id < b.id ? a : b;
  return a.value > b.value ? a : b;
}

// A token and its value, which the CTAs of a cluster tell each other as one number.
struct Token {
  int id;
  float value;
  u64 packed() const { return static_cast<u64>(__float_as_uint(value)) << 32 | static_cast<unsigned>(id); }
};
inline Token token_of(u64 packed) {
  return {static_cast<int>(packed), __uint_as_float(static_cast<unsigned>(packed >> 32))};
}

template <class T>
inline T of_row(const T* rows, int row, T all) {
  return rows ? rows[row] : all;
}

constexpr float NOT_ALLOWED = -lang::F32_INFINITY;
// The greatest value of a token that is never drawn.
constexpr float NO_MASS = FROM_PROBS ? 0.f : NOT_ALLOWED;

// A row, and the CTA's slice of it.
struct Slice {
  int row, source, first, count;
};

// Penalties of four logits from `i` of the slice on. It is a call, since most runs have none.
__noinline__ float4 penalised4(const SampleParams& p, Slice slice, int i, float4 x) {
  const unsigned* counts = p.counts + static_cast<long long>(slice.row) * p.vocab + slice.first + i;
  auto at = [&](int j) { return i + j < slice.count ? counts[j] : 0u; };
  bool wide = p.counts_wide && i + 4 <= slice.count;
  uint4 n = wide ? *reinterpret_cast<const uint4*>(counts) : uint4{at(0), at(1), at(2), at(3)};
  if ((n.x | n.y | n.z | n.w) == 0) return x;
  float repetition = of_row(p.repetition, slice.row, p.all_repetition);
  float presence = of_row(p.presence, slice.row, p.all_presence);
  float frequency = of_row(p.frequency, slice.row, p.all_frequency);
  auto of = [&](float y, unsigned count) {
    return lang::sampling::penalised(y, count, repetition, presence, frequency);
  };
  return {of(x.x, n.x), of(x.y, n.y), of(x.z, n.z), of(x.w, n.w)};
}

// Four aligned elements.
template <class E>
inline float4 load4(const E* from) {
  if constexpr (sizeof(E) == 4) {
    return *reinterpret_cast<const float4*>(from);
  } else {
    uint2 words = *reinterpret_cast<const uint2*>(from);
    float2 a = unpack2<E>(words.x), b = unpack2<E>(words.y);
    return {a.x, a.y, b.x, b.y};
  }
}

// Four tokens from `i` of the slice on, from memory; past the last they are not allowed.
inline float4 raw4(const SampleParams& p, Slice slice, int i) {
  const SampleElem* from = static_cast<const SampleElem*>(p.source) + slice.source * p.source_row + slice.first + i;
  if (p.wide && i + 4 <= slice.count) return load4(from);
  auto at = [&](int j) { return i + j < slice.count ? to_float(from[j]) : NOT_ALLOWED; };
  return {at(0), at(1), at(2), at(3)};
}
inline float4 finished4(const SampleParams& p, Slice slice, int i, float4 x) {
  if (p.penalties) x = penalised4(p, slice, i, x);
  if (p.token_mask && i < slice.count) {
    int id = slice.first + i;
    unsigned allowed = p.token_mask[static_cast<long long>(slice.row) * ((p.vocab + 31) / 32) + id / 32] >> id % 32;
    if (!(allowed & 1)) x.x = NOT_ALLOWED;
    if (!(allowed & 2)) x.y = NOT_ALLOWED;
    if (!(allowed & 4)) x.z = NOT_ALLOWED;
    if (!(allowed & 8)) x.w = NOT_ALLOWED;
  }
  return x;
}

constexpr int STEPS = BLOCK_TOKENS / 128;
static_assert(STEPS * 128 == BLOCK_TOKENS, "a warp has four neighbours a lane and step");
// Calls `f(step, j)` for each token of a block that a lane has.
template <class F>
inline void each_of_block(const F& f) {
#pragma unroll
  for (int step = 0; step < STEPS; ++step)
#pragma unroll
    for (int j = 0; j < 4; ++j) f(step, j);
}

// RESIDENT: shared memory holds the whole slice. Nothing in here may be called: what has an address is in local memory,
// for which the shared memory of three CTAs leaves no cache.
template <int THREADS, bool RESIDENT>
struct Row {
  const SampleParams& p;
  u64* masses;        // of the slice's blocks
  float* block_most;  // their greatest values
  float* resident;
  Slice slice;
  int first, begin, end;  // the slice's first token; the warp's segment of the slice
  bool settled = false;   // whether +inf stands for all probability
  float greatest = NOT_ALLOWED, to_log2 = 0.f;

  Row(const SampleParams& params, unsigned char* memory, int number, int source, int rank)
      : p(params), first(rank * params.slice) {
    int count = max(min(p.slice, p.vocab - first), 0), blocks = p.slice / BLOCK_TOKENS;
    masses = reinterpret_cast<u64*>(memory);
    block_most = reinterpret_cast<float*>(masses + blocks);
    resident = reinterpret_cast<float*>(memory + (12 * blocks + 15) / 16 * 16);
    slice = {number, source, first, count};
    constexpr int WARPS = THREADS / 32;
    int segment = ((count + WARPS - 1) / WARPS + BLOCK_TOKENS - 1) / BLOCK_TOKENS * BLOCK_TOKENS;
    begin = min(static_cast<int>(threadIdx.x) / 32 * segment, p.slice);
    end = min(begin + segment, (count + 127) / 128 * 128);
  }

  // Calls `f(i, x)` for each four tokens of this thread, x from `i` of the slice on.
  template <class F>
  void each(const F& f) const {
#pragma unroll 1
    for (int at = begin; at < end; at += 128) {
      int i = at + threadIdx.x % 32 * 4;
      float x[4];
      read(i, x);
      f(i, x);
    }
  }
  void read(int i, float (&x)[4]) const {
    float4 all;
    if (RESIDENT)
      all = *reinterpret_cast<const float4*>(resident + i);
    else
      all = finished4(p, slice, i, raw4(p, slice, i));
    x[0] = all.x, x[1] = all.y, x[2] = all.z, x[3] = all.w;
    settle4(x);
  }
  // Reads a block of the slice from memory, all of it at once, and keeps it if shared memory holds the slice.
  void load_block(int at, float (&x)[STEPS][4]) const {
    float4 raw[STEPS];
#pragma unroll
    for (int step = 0; step < STEPS; ++step) raw[step] = raw4(p, slice, at + step * 128 + threadIdx.x % 32 * 4);
#pragma unroll
    for (int step = 0; step < STEPS; ++step) {
      int i = at + step * 128 + threadIdx.x % 32 * 4;
      float4 y = finished4(p, slice, i, raw[step]);
      if (RESIDENT) *reinterpret_cast<float4*>(resident + i) = y;
      x[step][0] = y.x, x[step][1] = y.y, x[step][2] = y.z, x[step][3] = y.w;
      settle4(x[step]);
    }
  }
  // Reads it again.
  void read_block(int at, float (&x)[STEPS][4]) const {
    if constexpr (RESIDENT) {
#pragma unroll
      for (int step = 0; step < STEPS; ++step) read(at + step * 128 + threadIdx.x % 32 * 4, x[step]);
    } else {
      load_block(at, x);
    }
  }
  void settle4(float* x) const {
    if (!settled) return;
#pragma unroll
    for (int j = 0; j < 4; ++j) x[j] = x[j] == lang::F32_INFINITY ? (FROM_PROBS ? 1.f : 0.f) : NO_MASS;
  }
  int blocks() const { return (slice.count + BLOCK_TOKENS - 1) / BLOCK_TOKENS; }

  // Takes the greatest value of the row. Whether a token can be drawn.
  bool settle(float most) {
    settled = most == lang::F32_INFINITY;
    greatest = settled ? (FROM_PROBS ? 1.f : 0.f) : most;
    return FROM_PROBS ? greatest >= 1.17549435e-38f : greatest > NOT_ALLOWED;
  }
  u64 mass(float x) const {
    return FROM_PROBS ? lang::sampling::mass_of_prob(x, greatest)
                      : lang::sampling::mass_of_logit(x - greatest, to_log2);
  }
  float log_prob(float x, float inverse, u64 sum) const {
    return FROM_PROBS ? lang::sampling::share_of(mass(x), sum) : lang::sampling::log_prob(x - greatest, inverse, sum);
  }
  float prob(float x, float scale) const {
    return FROM_PROBS ? lang::sampling::prob_of_prob(x, greatest, scale)
                      : lang::sampling::prob_of_logit(x - greatest, to_log2, scale);
  }
};
