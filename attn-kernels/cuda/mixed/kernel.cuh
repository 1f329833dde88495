// attn_mixed: prefill and decode in one launch (POD-style), and KV segments that several requests share (cascade). Grid
// (decode_ctas + prefill_items * kv_heads), 32 * decode::WARPS threads, SMEM_BYTES of dynamic shared memory.
//
// Some CTAs are decode workers, which are bound by memory bandwidth; the others compute one prefill tile each, bound by
// the tensor cores. An SM holds two CTAs, at best one of each kind. Each kernel's templates are in a namespace of their
// own, with constants of their own.
#pragma once
#include "abi/launch_params.cuh"

static_assert(decode::THREADS == prefill::THREADS, "prefill and decode CTAs share a launch");
static_assert(!Variant::HAS_KV_LIST, "mixed launches have no KV lists");

constexpr int SMEM_BYTES = decode::SMEM_BYTES > prefill::SMEM_BYTES ? decode::SMEM_BYTES : prefill::SMEM_BYTES;

// The role of a CTA, and its index among the CTAs of that role.
struct MixedCta {
  bool is_decode;
  int number;
};

// CTAs start in the order of their index, one wave at a time, and the first CTAs of a wave go to an SM each. Decode
// workers come first in a wave, so that each shares its SM with a prefill tile.
inline MixedCta mixed_cta(const MixedParams& p, int cta) {
  int wave = cta / p.wave, within = cta - wave * p.wave;
  int begin = min(wave * p.wave_decodes, p.decode_ctas), count = min(p.decode_ctas - begin, p.wave_decodes);
  if (within < count) return {true, begin + within};
  return {false, cta - begin - count};
}

extern "C" __global__ void __launch_bounds__(prefill::THREADS, prefill::CTAS_PER_SM)
    attn_mixed(const __grid_constant__ LaunchParams p, const __grid_constant__ Variant variant) {
  extern __shared__ __align__(128) unsigned char shared_memory[];
  MixedCta cta = mixed_cta(p, blockIdx.x);
  if (cta.is_decode) {
    // the head varies fastest, as in a decode launch
    int worker = cta.number / p.kv_heads;
    decode::run_worker(p, variant, worker, cta.number - worker * p.kv_heads, shared_memory);
  } else {
    prefill::WorkTileIndex index = prefill::work_tile_index(cta.number, p.prefill_items, p.kv_heads);
    WorkItem item = p.prefill[index.item];
    prefill::prefill_mainloop(p, variant, item, index.kv_head, shared_memory);
  }
}
