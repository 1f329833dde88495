// A CTA of sm_90 prefill of latent attention, whose values are the first columns of the keys.
#pragma once
// Named barriers. Shared memory has one tile of P. A warpgroup arrives at `*_PROBS` once P of its tile of a pair is
// there, and at `*_READ` once its gemm_pv has read it; the other one waits for P, and before it overwrites P. The last
// two: one per consumer warpgroup.
constexpr int CONSUMER_BARRIER = 1, PRODUCER_BARRIER = 2, FIRST_PROBS_BARRIER = 3, FIRST_READ_BARRIER = 4,
              SECOND_PROBS_BARRIER = 5, SECOND_READ_BARRIER = 6, WARPGROUP_BARRIER = 7, WARP_SCHEDULER_BARRIER = 9;

#include "prefill/sm90/latent/loaders.cuh"
#include "prefill/sm90/latent/mainloop.cuh"
#include "prefill/sm90/roles.cuh"

// Threads that decode keys hold many of them.
constexpr int PRODUCER_REGISTERS = KEYS_DECODED ? 120 : 72, CONSUMER_REGISTERS = KEYS_DECODED ? 192 : 216;
using Cta = PrefillCta<Q_STAGES, PRODUCER_REGISTERS, CONSUMER_REGISTERS>;
constexpr int SMEM_BYTES = Cta::SMEM_BYTES;
