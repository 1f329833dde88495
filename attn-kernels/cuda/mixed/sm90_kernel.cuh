// attn_mixed for sm_90: prefill and decode in one persistent launch. Grid (CTAs), as many as the device holds and at
// least decode_ctas; prefill::CTA_THREADS threads, SMEM_BYTES of dynamic shared memory.
//
// The first decode_ctas CTAs are decode workers: each decodes with all of its warps, on an SM of its own, and then
// joins the prefill of the others through the tile scheduler. No CTA waits for another one. Each kernel's templates are
// in a namespace of their own, with constants of their own.
#pragma once

static_assert(decode::THREADS == prefill::CTA_THREADS, "all warps of a CTA decode");
static_assert(!Variant::HAS_KV_LIST, "mixed launches have no KV lists");

constexpr int SMEM_BYTES = decode::SMEM_BYTES > prefill::SMEM_BYTES ? decode::SMEM_BYTES : prefill::SMEM_BYTES;

// The decode part of a CTA. It is a call, so that ptxas allocates registers for each part alone: inlined, decode makes
// it move waits of the prefill mainloop ahead of the exponentials.
__noinline__ void decode_part(const LaunchParams& p, const Variant& variant, unsigned char* shared_memory) {
  // the head varies fastest, as in a decode launch
  int worker = blockIdx.x / p.kv_heads;
  decode::run_worker(p, variant, worker, blockIdx.x - worker * p.kv_heads, shared_memory);
}

extern "C" __global__ void __launch_bounds__(prefill::CTA_THREADS, 1)
    attn_mixed(const __grid_constant__ LaunchParams p, const __grid_constant__ Variant variant,
               const __grid_constant__ Sm90Params w) {
  extern __shared__ __align__(128) unsigned char shared_memory[];
  if (blockIdx.x < static_cast<unsigned>(p.decode_ctas)) {
    decode_part(p, variant, shared_memory);
    // TMA writes over the memory of decode. Its accesses, by each thread, come before the barrier of prefill.
    cp_async_wait<0>();
    prefill::fence_view_async_shared();
  }
  prefill::Cta::run(p, variant, w, shared_memory);
}
