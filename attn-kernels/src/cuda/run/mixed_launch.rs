//! The launch of a mixed kernel.

use attn_core::{batch::KvSegment, plan::WorkItem};

use super::{sm90_launch::sm90_params, tensors::RunTensors};
use crate::cuda::attention::bound::BoundAttention;
use crate::cuda::driver::launch_kernel::{argument, launch_kernel, launch_with};
use crate::cuda::plan::launches::Launches;
use crate::cuda::plan::plan_workspace::PlanWorkspace;
use crate::cuda::{CudaError, CudaStream};
use crate::launch::{KV_PREPROCESS_THREADS, MERGE_THREADS};
use crate::launch::{KernelParams, MixedParams, PackedMixedParams, PackedParams, Waves};

/// Launches the mixed kernel, after K/V preprocessing and before the merge. It does not support unions.
pub(super) fn launch_mixed(
    stream: &CudaStream,
    attention: &BoundAttention,
    launches: &Launches,
    workspace: &PlanWorkspace,
    PackedParams { base, sides }: PackedParams,
    tensors: &RunTensors<'_>,
    args: &[u8],
) -> Result<(), CudaError> {
    let (kernel, traits) = (launches.kernel(), launches.kernel().traits());
    let (heads, multiprocessors) = (attention.heads, attention.device.multiprocessors());
    let params = mixed_params(base, heads.kv, multiprocessors, kernel.resident_ctas(), workspace);
    // a kernel over tensors takes the first part of it
    let packed = PackedMixedParams { base: params, sides };
    let (decodes, items) = (params.decode_ctas as u32, params.prefill_items as u32);
    let sm90 = match traits.is_sm90_prefill() {
        true => Some(sm90_params(heads, launches, kernel, items, &params.base, tensors)?),
        false => None,
    };
    let launch = |function, grid, threads, smem| {
        // SAFETY: as for the other launches of `CudaPlan::run`.
        unsafe { launch_kernel(function, grid, threads, smem, stream, &packed, args) }
    };
    if let Some(kv_preprocess) = kernel.kv_preprocess
        && items > 0
    {
        let [x, y] = traits.kv_preprocess_grid(launches.preprocess_tokens, launches.requests, heads.kv);
        launch(kv_preprocess, (x, y), KV_PREPROCESS_THREADS, 0)?;
    }
    let (ctas, threads, smem) = (decodes + items * heads.kv, traits.threads(), traits.smem_bytes());
    match &sm90 {
        None => launch(kernel.main, (ctas, 1), threads, smem)?,
        Some(sm90) => {
            // persistent CTAs, of which the first begin with decode
            let grid = (ctas.min(kernel.resident_ctas()).max(decodes), 1);
            let mut arguments = [argument(&packed), args.as_ptr().cast_mut().cast(), argument(sm90)];
            // SAFETY: as above; with sm90 prefill the kernel takes the third argument.
            unsafe { launch_with(kernel.main, grid, threads, smem, stream, &mut arguments) }?;
        }
    }
    let grid = kernel.merge_grid(launches.merges, heads);
    kernel.merge.map_or(Ok(()), |merge| launch(merge, grid, MERGE_THREADS, 0))
}

fn mixed_params(
    base: KernelParams,
    kv_heads: u32,
    multiprocessors: u32,
    wave: u32,
    workspace: &PlanWorkspace,
) -> MixedParams {
    let lists = &workspace.sections.lists;
    let [decode, prefill] = &lists.parts[..] else { return MixedParams { base, ..MixedParams::default() } };
    let (decodes, prefill_items) = (decode.workers.len() as u32 * kv_heads, prefill.items.len() as u32);
    let waves = Waves { decodes, ctas: decodes + prefill_items * kv_heads, wave, multiprocessors };
    MixedParams {
        base,
        prefill: base.items + (prefill.items.start * size_of::<WorkItem>()) as u64,
        merge_parts: workspace.address(&lists.merge_parts),
        request_of_query: workspace.address(&lists.request_of_query),
        segment_ends: workspace.address(&lists.segment_ends),
        segments: workspace.address(&lists.segments),
        decode_ctas: decodes as i32,
        prefill_items: prefill_items as i32,
        segment_count: (lists.segments.len() / size_of::<KvSegment>()) as i32,
        wave: wave as i32,
        wave_decodes: waves.decode_ctas_per_wave() as i32,
        pad: 0,
    }
}
