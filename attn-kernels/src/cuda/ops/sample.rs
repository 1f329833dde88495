//! Sampling: one launch, a cluster of CTAs a row.

use attn_core::dtype::Dtype;
use attn_core::sampling::{BLOCK_TOKENS, FilterOrder, FilterOut, LogProbs, SampleOut, SamplingParams, Source, check};
use attn_core::tensor::{TensorMut, TensorRef};

use super::launch::OpLaunch;
use super::sampled_rows::{CTA_VOCAB, has_clusters};
use super::{Op, ctas, module, stride};
use crate::cuda::{CudaError, CudaStream, Device};
use crate::launch::{SAMPLE_CLUSTER, SAMPLE_THREADS, SampleParams, sample_smem};

/// Tokens that a warp takes at a time: `slice` is a multiple of it.
const BLOCK: u32 = BLOCK_TOKENS as u32;

/// Launches the kernel of [`attn_core::sampling::sample()`], which defines the result. A row of `indices` out of range
/// gives id -1.
///
/// # Errors
///
/// What does not fit, memory of the host, no kernel.
pub fn sample(
    stream: &CudaStream,
    source: Source,
    tensor: &TensorRef<'_>,
    params: &SamplingParams<'_>,
    out: &SampleOut<'_>,
) -> Result<(), CudaError> {
    let sizes = check::check(source, tensor, params, out)?;
    let mut launch = OpLaunch::default();
    let mut kernel = SampleParams {
        positions: launch.write("positions", &out.positions)?,
        ids: launch.write("ids", &out.ids)?,
        counts: launch.write_if("counts", out.counts.as_ref())?,
        log_probs: launch.write_if("log_probs", out.log_probs.as_ref())?,
        ..inputs(&mut launch, source, tensor, params, sizes)?
    };
    kernel.counts_wide =
        i32::from(kernel.counts != 0 && kernel.counts.is_multiple_of(16) && sizes.vocab.is_multiple_of(4));
    if let Some(probs) = &out.probs {
        keep(&mut launch, &mut kernel, "probs", probs)?;
    }
    if let Some(top) = &out.top {
        kernel.top_ids = launch.write("top.ids", &top.ids)?;
        kernel.top_log_probs = launch.write("top.log_probs", &top.log_probs)?;
        kernel.top_count = top.count as i32;
    }
    run(stream, launch, source, tensor.dtype(), sizes, kernel)
}

/// Launches the kernel of [`attn_core::sampling::keep()`], which defines the result. A row of `indices` out of range is
/// 0, or -inf.
///
/// # Errors
///
/// What does not fit, memory of the host, no kernel.
pub fn keep_filtered(
    stream: &CudaStream,
    source: Source,
    tensor: &TensorRef<'_>,
    params: &SamplingParams<'_>,
    what: FilterOut,
    out: &TensorMut<'_>,
) -> Result<(), CudaError> {
    let sizes = check::check_keep(source, tensor, params, out)?;
    let mut launch = OpLaunch::default();
    let mut kernel = inputs(&mut launch, source, tensor, params, sizes)?;
    keep(&mut launch, &mut kernel, "out", out)?;
    kernel.keeps_logits = i32::from(what == FilterOut::Logits);
    run(stream, launch, source, tensor.dtype(), sizes, kernel)
}

/// Compiles and loads the kernels for rows of a type, so that the first call can be captured.
///
/// # Errors
///
/// No cubin, or one that does not load.
pub fn prepare_sampling(device: &Device, source: Source, from: Dtype) -> Result<(), CudaError> {
    let clusters = if has_clusters(device) { &[false, true][..] } else { &[false] };
    clusters.iter().try_for_each(|&cluster| module::prepare(device, Op::Sample { from, source, cluster }))
}

/// The parameters of what is read.
fn inputs<'a>(
    launch: &mut OpLaunch<'a>,
    source: Source,
    tensor: &TensorRef<'a>,
    params: &SamplingParams<'a>,
    sizes: check::Sizes,
) -> Result<SampleParams, CudaError> {
    let mut kernel = SampleParams {
        source: launch.read_tensor(source.name(), tensor)?,
        source_row: stride(tensor.shape(), tensor.strides(), 0),
        sources: sizes.sources as i32,
        vocab: sizes.vocab as i32,
        joint: i32::from(params.order == FilterOrder::Joint),
        of_kept: i32::from(params.log_probs == LogProbs::Kept),
        ..SampleParams::default()
    };
    let size = tensor.dtype().size() as u64;
    kernel.wide = i32::from(kernel.source.is_multiple_of(4 * size) && kernel.source_row % 4 == 0);
    (kernel.temperature, kernel.all_temperature) = launch.per_row("temperature", &params.temperature)?;
    (kernel.top_k, kernel.all_top_k) = launch.per_row("top_k", &params.top_k)?;
    (kernel.top_p, kernel.all_top_p) = launch.per_row("top_p", &params.top_p)?;
    (kernel.min_p, kernel.all_min_p) = launch.per_row("min_p", &params.min_p)?;
    (kernel.seeds, kernel.all_seeds) = launch.per_row("seeds", &params.seeds)?;
    if let Some(penalties) = &params.penalties {
        kernel.penalties = 1;
        (kernel.repetition, kernel.all_repetition) = launch.per_row("repetition", &penalties.repetition)?;
        (kernel.presence, kernel.all_presence) = launch.per_row("presence", &penalties.presence)?;
        (kernel.frequency, kernel.all_frequency) = launch.per_row("frequency", &penalties.frequency)?;
    }
    kernel.token_mask = launch.read_if("token_mask", params.token_mask.as_ref())?;
    kernel.indices = launch.read_if("indices", params.indices.as_ref())?;
    Ok(kernel)
}

/// Rows of what the filters keep.
fn keep<'a>(
    launch: &mut OpLaunch<'a>,
    kernel: &mut SampleParams,
    name: &'static str,
    kept: &TensorMut<'a>,
) -> Result<(), CudaError> {
    kernel.kept = launch.write_tensor(name, kept)?;
    kernel.kept_row = stride(kept.shape(), kept.strides(), 0);
    kernel.kept_wide = i32::from(kernel.kept.is_multiple_of(16) && kernel.kept_row % 4 == 0);
    Ok(())
}

fn run(
    stream: &CudaStream,
    launch: OpLaunch<'_>,
    source: Source,
    from: Dtype,
    sizes: check::Sizes,
    mut params: SampleParams,
) -> Result<(), CudaError> {
    let shape = Shape::of(stream.device(), sizes);
    params.slice = shape.slice as i32;
    let kernel = launch.ordered(stream, Op::Sample { from, source, cluster: shape.ctas > 1 }, shape.kernel)?;
    let grid = ctas("rows", sizes.rows as u64 * u64::from(shape.ctas), 1)?;
    // SAFETY: the caller promised the memory of tensors and arrays when it made them, and their extents are checked.
    unsafe { kernel.launch((grid, 1), SAMPLE_THREADS[shape.kernel], shape.smem, &params) }
}

/// How rows are distributed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Shape {
    /// CTAs of a row.
    ctas: u32,
    /// Tokens of a CTA.
    slice: u32,
    /// Bytes of shared memory.
    smem: u32,
    /// Which of the kernels.
    kernel: usize,
}

impl Shape {
    fn of(device: &Device, sizes: check::Sizes) -> Self {
        Self::on(has_clusters(device), device.max_smem(), device.multiprocessors(), sizes)
    }

    fn on(clusters: bool, max_smem: u32, multiprocessors: u32, sizes: check::Sizes) -> Self {
        // a CTA reads a row in the time in which a cluster reads about four
        let fills = 4 * sizes.rows >= multiprocessors as usize;
        let ctas = if clusters && sizes.vocab > CTA_VOCAB && !fills { SAMPLE_CLUSTER } else { 1 };
        let slice = (sizes.vocab as u32).div_ceil(ctas).next_multiple_of(BLOCK);
        let smem = sample_smem(ctas, slice, true);
        if (sizes.vocab <= CTA_VOCAB || ctas > 1) && smem <= max_smem {
            // many threads a row hide latency until rows fill the device
            let few = sizes.rows as u64 * u64::from(ctas) <= u64::from(multiprocessors);
            return Shape { ctas, slice, smem, kernel: usize::from(!few) };
        }
        Shape { ctas, slice, smem: sample_smem(ctas, slice, false), kernel: 2 }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_fit_in_shared_memory_or_are_read_again() {
        let on = |clusters, smem: u32, rows, vocab| {
            Shape::on(clusters, smem * 1024, 132, check::Sizes { sources: rows, rows, vocab })
        };
        let some = on(true, 227, 32, 128_256);
        assert_eq!((some.ctas, some.slice, some.kernel), (8, 16_384, 1));
        // two CTAs an SM, each of which the driver adds 1 KiB to
        assert!(2 * (some.smem + 1024) <= 228 * 1024);
        assert_eq!(on(true, 227, 1, 128_256).kernel, 0);
        let many = on(true, 227, 33, 128_256);
        assert_eq!((many.ctas, many.slice, many.kernel), (1, 128_512, 2));
        assert!(2 * (many.smem + 1024) <= 228 * 1024);
        let small = on(true, 227, 1, 111);
        assert_eq!((small.ctas, small.slice, small.kernel), (1, 512, 0));
        let old = on(false, 64, 512, 600_001);
        assert_eq!((old.ctas, old.kernel), (1, 2));
        assert!(old.smem <= 64 * 1024);
        assert_eq!(on(false, 64, 1, 0).slice, 0);
    }
}
