// Kernel entry attn_verify_chain: verifies a chain of drafts. attn-core/src/sampling/verify is the CPU reference, with
// the same bits. Grid: requests * CLUSTER_CTAS.
#pragma once
#include "sampling/residual_draw.cuh"
#include "sampling/verify_params.cuh"
#include "lang/random.cuh"
#include "sampling/coin.cuh"

struct ChainShared {
  DrawShared draw;
  int accepted, emitted;
};
static_assert(sizeof(ChainShared) == VERIFY_SHARED_BYTES, "verify_abi.rs and the template agree");

extern "C" __global__ void IN_CLUSTERS __launch_bounds__(VERIFY_THREADS, 3)
    attn_verify_chain(const __grid_constant__ VerifyChainParams p) {
  extern __shared__ __align__(16) unsigned char shared_memory[];
  ChainShared& s = *reinterpret_cast<ChainShared*>(shared_memory);
  long long request = blockIdx.x / CLUSTER_CTAS;
  const float* draft = p.draft_probs + request * p.draft_request;
  const float* target = p.target_probs + request * p.target_request;
  const int* ids = p.draft_ids + request * p.drafts;
  u64 first = static_cast<u64>(p.positions[request]), seed = p.seeds ? p.seeds[request] : p.all_seeds;
  auto is_draft = [&](int id) { return 0 <= id && id < p.vocab; };
  if (threadIdx.x == 0) s.accepted = 0, s.emitted = p.drafts;
  __syncthreads();
  for (int i = threadIdx.x; i < p.drafts; i += VERIFY_THREADS) {
    int id = ids[i];
    bool passes = is_draft(id) && lang::sampling::accepts(lang::random::bits64(seed, first + i, lang::verify::TEST),
                                                          draft[i * p.draft_row + id], target[i * p.target_row + id]);
    if (passes)
      atomicAdd(&s.accepted, 1);
    else
      atomicMin(&s.emitted, i);
  }
  __syncthreads();
  int accepted = s.accepted, emitted = s.emitted;
  bool refused = emitted < p.drafts && is_draft(ids[emitted]);
  MassRow row{target + emitted * p.target_row, refused ? draft + emitted * p.draft_row : nullptr, nullptr, 0, p.vocab,
              p.wide != 0};
  unsigned purpose = refused ? lang::verify::RESIDUAL : lang::verify::DRAW;
  int* to = p.ids + request * (p.drafts + 1);
  draw_token(row, p.slice, s.draw, lang::random::bits64(seed, first + emitted, purpose), to + emitted);
  if (cluster_rank()) return;
  for (int i = threadIdx.x; i <= p.drafts; i += VERIFY_THREADS)
    if (i != emitted) to[i] = i < emitted ? ids[i] : -1;
  if (threadIdx.x == 0) {
    p.accepted[request] = accepted;
    p.emitted[request] = emitted;
    p.positions[request] = static_cast<long long>(first + emitted + 1);
  }
}
