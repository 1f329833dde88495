//! The launch of a mixed kernel.

use std::ops::Range;

use attn_core::plan::MixedOffsets;

use super::{CudaError, Plan, Stream, launch_kernel::launch_kernel, work::MixedGrid};
use crate::{
    kernel_traits::{KV_PREPROCESS_THREADS, MERGE_THREADS},
    launch::{KernelParams, MixedParams, Waves},
};

impl Plan {
    /// Launches the mixed kernel, after K/V preprocessing and before the merge. It does not support unions.
    pub(super) fn launch_mixed(
        &self,
        stream: &Stream,
        params: &MixedParams,
        counts: MixedGrid,
        args: &[u8],
    ) -> Result<(), CudaError> {
        let (kernel, kv_heads) = (&self.branches[0].kernel, self.attention.heads.kv);
        let traits = kernel.traits();
        let launch = |function, grid, threads, smem| {
            // SAFETY: as for the other launches of `Plan::launch`.
            unsafe { launch_kernel(function, grid, threads, smem, stream, params, args) }
        };
        if let Some(kv_preprocess) = kernel.kv_preprocess
            && counts.prefill > 0
        {
            let ctas = counts.preprocess_tokens.div_ceil(traits.kv_preprocess_keys());
            launch(kv_preprocess, (ctas, kv_heads.div_ceil(traits.kv_preprocess_heads())), KV_PREPROCESS_THREADS, 0)?;
        }
        launch(kernel.main, (counts.ctas(kv_heads), 1), traits.threads(), traits.smem_bytes())?;
        kernel.merge.map_or(Ok(()), |merge| launch(merge, (self.merges, kv_heads), MERGE_THREADS, 0))
    }

    pub(super) fn mixed_params(&self, base: KernelParams, counts: MixedGrid, lists: &MixedOffsets) -> MixedParams {
        let at = |section: &Range<usize>| {
            if section.is_empty() { 0 } else { self.memory.buffer.ptr() + section.start as u64 }
        };
        let wave = self.branches[0].kernel.resident_ctas();
        let (decodes, ctas) = (counts.workers * base.kv_heads as u32, counts.ctas(base.kv_heads as u32));
        let multiprocessors = self.attention.device.multiprocessors();
        let waves = Waves { decodes, ctas, wave, multiprocessors };
        MixedParams {
            base,
            workers: at(&lists.workers),
            decode: at(&lists.decode),
            prefill: at(&lists.prefill),
            merges: at(&lists.merges),
            merge_parts: at(&lists.merge_parts),
            request_of_query: at(&lists.request_of_query),
            segment_ends: at(&lists.segment_ends),
            segments: at(&lists.segments),
            decode_ctas: decodes as i32,
            prefill_items: counts.prefill as i32,
            segment_count: counts.segments as i32,
            wave: wave as i32,
            wave_decodes: waves.decode_ctas_per_wave() as i32,
            pad: 0,
        }
    }
}
