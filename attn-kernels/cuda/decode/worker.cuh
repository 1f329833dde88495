// The persistent worker of split-KV decode: a CTA is one worker for one KV head and runs the worker's items in order.
//
// Decode is bound by memory bandwidth: each key is read once and used for a few rows. So loads must never stop. Warps
// own disjoint keys, their cp.async pipelines run ahead across the borders of items, and they synchronise only at the
// end of an item, where their partials merge in a fixed order.
//
// The kernel traits also define WARP_KEYS and STEP_KEYS: the keys of a warp and of the CTA in one pipeline step. The
// products of a step are those of `DecodeMma`, which a kernel defines before it includes this file: SwapAbMma on tensor
// cores, CudaCoreMma on CUDA cores.
#pragma once

#include "schedule/split_semaphore.cuh"
#include "decode/mainloop.cuh"
#include "decode/partials.cuh"
#include "decode/q_rows.cuh"

using Mainloop = DecodeMainloop<DecodeMma>;
using SmemQ = Mainloop::SmemQ;

using Merger = RowMerger<THREADS, 8>;
// The merge of partials reuses the memory of Q, which is no longer needed then.
constexpr int MERGE_SMEM_BYTES = sizeof(Merger::Shared);
constexpr int Q_SMEM_BYTES = SmemQ::BYTES > MERGE_SMEM_BYTES ? SmemQ::BYTES : MERGE_SMEM_BYTES;
constexpr int SMEM_BYTES = KvPipeline::BYTES + Q_SMEM_BYTES + SmemPartials::MD_BYTES;

// Merges the partials of the warps in warp order, then writes the output of an item's rows or, of a KV split, its
// partial.
inline void epilogue(const KernelParams& p, const Variant& variant, const QTile& q_tile, int partial,
                     const SmemPartials& partials) {
  int own_row = threadIdx.x / ROW_LANES;
#pragma unroll 1
  for (int first = 0; first < q_tile.rows; first += THREADS / ROW_LANES) {
    int r = q_tile.clamp_row(first + own_row);
    bool exists = q_tile.has_row(first + own_row);
    PartialRow state;
#pragma unroll
    for (int warp = 0; warp < KEY_WARPS; ++warp)
      state.merge(load_partial([&](int dim) { return partials.partial_o(warp, r, dim); }, partials.md(warp, r)));
    if (partial < 0) {
      write_output(p, variant, state, q_tile.at(p, r), exists);
    } else if (exists) {
      store_partial_row(p, state, partial + r, q_tile.kv_head);
    }
  }
}

// Runs the items of a worker for one KV head. `smem`: the dynamic shared memory, aligned to 128 bytes.
inline void run_items(const KernelParams& p, const Variant& variant, WorkerStart start, int kv_head,
                      unsigned char* smem) {
  unsigned char* q_memory = smem + KvPipeline::BYTES;
  SmemQ smem_q = {shared_address(q_memory)};
  float2* md_base = reinterpret_cast<float2*>(q_memory + Q_SMEM_BYTES);

  // A worker without items does nothing below. If it returned here, the compiler would load the range of items, wait
  // for it, and only then load the first item: two round trips to memory instead of one.
  int item = start.first, end = start.end;
  KvLoadIter load_iter(p, variant, kv_head, start);
  KvPipeline pipeline(p, kv_head, shared_address(smem));

  // Loads run STAGES - 1 steps ahead of the MMAs, look-ups in the page table one step more.
  KvStep steps[STAGES];
  KvLocation locations[STAGES];
  // The loop is not unrolled, since finding a step may take long code. All page look-ups follow together, so that their
  // latencies overlap.
#pragma unroll 1
  for (int i = 0; i < STAGES; ++i) {
#pragma unroll
    for (int j = 0; j + 1 < STAGES; ++j) {
      steps[j] = steps[j + 1];
      locations[j] = locations[j + 1];
    }
    steps[STAGES - 1] = load_iter.next();
    locations[STAGES - 1] = load_iter.locate(steps[STAGES - 1], pipeline.first_key());
  }
#pragma unroll
  for (KvLocation& location : locations) location = resolve_page<KV_PAGED>(p, location);
#pragma unroll
  for (int i = 0; i + 1 < STAGES; ++i) {
    if (steps[i].item < end) pipeline.load_stage(i, steps[i], locations[i]);
    cp_async_commit();
  }
  KvStep ahead = steps[STAGES - 1];
  KvLocation location = locations[STAGES - 1];

  WorkItem work = start.item;
  int stage = 0;
#pragma unroll 1
  while (item < end) {
    bool merges = work.partial >= 0;
    MergedPartials merged = {};
    if (merges) merged = merged_partials(p, work);  // loaded early: the latency overlaps the mainloop
    QTile q_tile(work, kv_head);
    KvRange kv_range(p, variant, q_tile, work);
    load_q_tile(p, variant, q_tile, smem_q);
    __syncthreads();  // Q is in shared memory, and the partials of the previous item have been read
    Mainloop mainloop(p, variant, q_tile, kv_range, smem_q);
#pragma unroll 1
    while (steps[0].item == item) {
      steps[STAGES - 1] = ahead;
      if (ahead.item < end) {
        pipeline.load_stage(stage == 0 ? STAGES - 1 : stage - 1, ahead, location);  // the stage of the previous step
        ahead = load_iter.next();
        location = resolve_page<KV_PAGED>(p, load_iter.locate(ahead, pipeline.first_key()));
      }
      cp_async_commit();  // an empty group at the end keeps the number of groups in flight constant
      cp_async_wait<STAGES - 1>();
      sync_row_warps();  // the copies of all lanes have arrived
      mainloop.step(pipeline, stage, steps[0]);
      sync_row_warps();  // the stage has been read
#pragma unroll
      for (int i = 0; i + 1 < STAGES; ++i) steps[i] = steps[i + 1];
      stage = stage + 1 == STAGES ? 0 : stage + 1;
    }

    SmemPartials partials = {smem, stage == 0 ? STAGES - 1 : stage - 1, md_base};
    mainloop.store(partials);
    __syncthreads();  // the partials of all warps are in shared memory, and Q has been read
    epilogue(p, variant, q_tile, work.partial, partials);
    if (merges) merge_if_last<Merger>(p, variant, work, merged, q_tile, *reinterpret_cast<Merger::Shared*>(q_memory));
    if (++item < end) work = p.items[item];
  }
}

// Runs all items of a worker.
inline void run_worker(const KernelParams& p, const Variant& variant, int worker, int kv_head, unsigned char* smem) {
  run_items(p, variant, p.workers[worker], kv_head, smem);
}

// Runs one item in a CTA of its own, as mixed launches run the items of their prefill part. A captured launch has CTAs
// for more items than there are: the others have no rows.
inline void prefill_mainloop(const KernelParams& p, const Variant& variant, const WorkItem& item, int kv_head,
                             unsigned char* smem) {
  if (item.rows == 0) return;
  run_items(p, variant, {0, 1, {}, item}, kv_head, smem);
}
