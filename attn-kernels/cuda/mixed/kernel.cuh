// attn_mixed: requests of few queries and of many in one launch, and keys that several requests share. Grid (decode_ctas +
// prefill_items * kv_heads), 32 * decode::WARPS threads, SMEM_BYTES of dynamic shared memory.
//
// Some CTAs are workers of decode, which move bytes; the others take a tile of prefill each, and multiply. A multiprocessor holds two: at best,
// one of each kind. What belongs to one of the families is in a namespace of its own, with constants of its own.
#pragma once

static_assert(decode::THREADS == prefill::THREADS, "they share a launch");
static_assert(!Variant::HAS_KV_LIST, "lists of keys are not for mixed launches");

constexpr int SMEM_BYTES = decode::SMEM_BYTES > prefill::SMEM_BYTES ? decode::SMEM_BYTES : prefill::SMEM_BYTES;

// What a CTA is: its number among those of its kind.
struct MixedPlace {
  bool decodes;
  int number;
};

// CTAs start in the order of their numbers, a wave of them at once, the first of it on a multiprocessor each. The workers of a wave come first, so that
// they have tiles of prefill beside them.
inline MixedPlace mixed_place(const MixedParams& p, int cta) {
  int wave = cta / p.wave, within = cta - wave * p.wave;
  int begin = min(wave * p.wave_decodes, p.decode_ctas), count = min(p.decode_ctas - begin, p.wave_decodes);
  if (within < count) return {true, begin + within};
  return {false, cta - begin - count};
}

extern "C" __global__ void __launch_bounds__(prefill::THREADS, prefill::CTAS_PER_SM)
    attn_mixed(const __grid_constant__ MixedParams p, const __grid_constant__ Variant variant) {
  extern __shared__ __align__(128) unsigned char shared_memory[];
  MixedPlace cta = mixed_place(p, blockIdx.x);
  if (cta.decodes) {
    // heads run fastest, as in a launch of decode
    int worker = cta.number / p.kv_heads;
    decode::run_worker(p, variant, worker, cta.number - worker * p.kv_heads, shared_memory);
  } else {
    prefill::CtaPlace place = prefill::cta_place(cta.number, p.prefill_items, p.kv_heads);
    MixedItem item = p.prefill[place.item];
    prefill::run_item(p, variant, item, place.kv_head, shared_memory);
  }
}
