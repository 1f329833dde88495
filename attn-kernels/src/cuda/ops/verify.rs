//! Verification of drafts: one launch, a CTA or a cluster of CTAs a request.

use attn_core::sampling::{ChainDrafts, ChainOut, DraftSizes, TreeDrafts, TreeOut, check_chain, check_tree};
use attn_core::tensor::TensorRef;

use super::launch::OpLaunch;
use super::sampled_rows::{CTA_VOCAB, has_clusters};
use super::{Op, ctas, in_sixteens, module, stride};
use crate::cuda::{CudaError, CudaStream, Device};
use crate::launch::{
    CHAIN_SHARED_BYTES, VERIFY_CLUSTER, VERIFY_THREADS, VerifyChainParams, VerifyTreeParams, tree_shared_bytes,
};

/// Launches the kernel of [`attn_core::sampling::verify_chain`], which defines the result. A draft outside of the
/// vocabulary is none.
///
/// # Errors
///
/// What does not fit, memory of the host, no kernel.
pub fn verify_chain(stream: &CudaStream, drafts: &ChainDrafts<'_>, out: &ChainOut<'_>) -> Result<(), CudaError> {
    let sizes = check_chain(drafts, out)?;
    let shape = Shape::of(stream.device(), sizes);
    let mut launch = OpLaunch::default();
    let draft = Rows::of(&mut launch, "draft_probs", &drafts.draft_probs)?;
    let target = Rows::of(&mut launch, "target_probs", &drafts.target_probs)?;
    let (seeds, all_seeds) = launch.per_row("seeds", &drafts.seeds)?;
    let params = VerifyChainParams {
        draft_probs: draft.at,
        draft_request: draft.strides[0],
        draft_row: draft.strides[1],
        target_probs: target.at,
        target_request: target.strides[0],
        target_row: target.strides[1],
        draft_ids: launch.read("draft_ids", &drafts.draft_ids)?,
        seeds,
        all_seeds,
        ids: launch.write("ids", &out.ids)?,
        accepted: launch.write("accepted", &out.accepted)?,
        emitted: launch.write("emitted", &out.emitted)?,
        positions: launch.write("positions", &out.positions)?,
        drafts: extent("drafts", sizes.drafts)?,
        vocab: sizes.vocab as i32,
        slice: shape.slice as i32,
        wide: i32::from(target.wide && draft.wide),
    };
    let op = Op::VerifyChain { cluster: shape.ctas > 1 };
    run(stream, launch, op, sizes, shape, CHAIN_SHARED_BYTES, &params)
}

/// Launches the kernel of [`attn_core::sampling::verify_tree`], which defines the result. A draft outside of the
/// vocabulary is refused, a link out of range is none, and what a `retrieve_index` out of range would place is not
/// written.
///
/// # Errors
///
/// What does not fit, memory of the host, no kernel.
pub fn verify_tree(stream: &CudaStream, drafts: &TreeDrafts<'_>, out: &TreeOut<'_>) -> Result<(), CudaError> {
    let sizes = check_tree(drafts, out)?;
    let shape = Shape::of(stream.device(), sizes);
    let mut launch = OpLaunch::default();
    let target = Rows::of(&mut launch, "target_probs", &drafts.target_probs)?;
    let (seeds, all_seeds) = launch.per_row("seeds", &drafts.seeds)?;
    let params = VerifyTreeParams {
        target_probs: target.at,
        target_request: target.strides[0],
        target_row: target.strides[1],
        draft_ids: launch.read("draft_ids", &drafts.draft_ids)?,
        retrieve_index: launch.read("retrieve_index", &drafts.retrieve_index)?,
        retrieve_next_token: launch.read("retrieve_next_token", &drafts.retrieve_next_token)?,
        retrieve_next_sibling: launch.read("retrieve_next_sibling", &drafts.retrieve_next_sibling)?,
        seeds,
        all_seeds,
        ids: launch.write("ids", &out.ids)?,
        accept_index: launch.write("accept_index", &out.accept_index)?,
        accepted: launch.write("accepted", &out.accepted)?,
        positions: launch.write("positions", &out.positions)?,
        threshold_single: drafts.threshold_single,
        threshold_acc: drafts.threshold_acc,
        requests: extent("requests", sizes.requests)?,
        nodes: sizes.drafts as i32,
        vocab: sizes.vocab as i32,
        slice: shape.slice as i32,
        wide: i32::from(target.wide),
        pad: 0,
    };
    let op = Op::VerifyTree { cluster: shape.ctas > 1 };
    run(stream, launch, op, sizes, shape, tree_shared_bytes(sizes.drafts as u32), &params)
}

/// Compiles and loads the kernels of verification, so that the first call can be captured.
///
/// # Errors
///
/// No cubin, or one that does not load.
pub fn prepare_verify(device: &Device) -> Result<(), CudaError> {
    let clusters = if has_clusters(device) { &[false, true][..] } else { &[false] };
    let ops = clusters.iter().flat_map(|&cluster| [Op::VerifyChain { cluster }, Op::VerifyTree { cluster }]);
    ops.into_iter().try_for_each(|op| module::prepare(device, op))
}

/// Rows of probabilities.
struct Rows {
    at: u64,
    /// From request to request, and from row to row, in elements.
    strides: [i64; 2],
    /// Whether every row begins at a multiple of 16 bytes.
    wide: bool,
}

impl Rows {
    fn of<'a>(launch: &mut OpLaunch<'a>, name: &'static str, probs: &TensorRef<'a>) -> Result<Self, CudaError> {
        let at = launch.read_tensor(name, probs)?;
        let strides = [0, 1].map(|dim| stride(probs.shape(), probs.strides(), dim));
        let wide = probs.shape().contains(&0) || in_sixteens(at, probs.dtype().size(), &strides);
        Ok(Rows { at, strides, wide })
    }
}

/// An extent as the kernel has it.
fn extent(what: &'static str, value: usize) -> Result<i32, CudaError> {
    ctas(what, value as u64, 1).map(|value| value as i32)
}

#[allow(clippy::too_many_arguments)] // what two kernels differ in
fn run<P>(
    stream: &CudaStream,
    launch: OpLaunch<'_>,
    op: Op,
    sizes: DraftSizes,
    shape: Shape,
    smem: u32,
    params: &P,
) -> Result<(), CudaError> {
    let kernel = launch.ordered(stream, op, 0)?;
    let grid = ctas("requests", sizes.requests as u64 * u64::from(shape.ctas), 1)?;
    // SAFETY: the caller promised the memory of tensors and arrays when it made them, and their extents are checked.
    unsafe { kernel.launch((grid, 1), VERIFY_THREADS, smem, params) }
}

/// How rows are distributed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Shape {
    /// CTAs of a request.
    ctas: u32,
    /// Tokens of a CTA, a multiple of 128: what a warp takes at a time.
    slice: u32,
}

impl Shape {
    fn of(device: &Device, sizes: DraftSizes) -> Self {
        Self::on(has_clusters(device), device.multiprocessors(), sizes)
    }

    fn on(clusters: bool, multiprocessors: u32, sizes: DraftSizes) -> Self {
        // more requests fill the device by themselves
        let few = sizes.requests <= multiprocessors as usize;
        let ctas = if clusters && few && sizes.vocab > CTA_VOCAB { VERIFY_CLUSTER } else { 1 };
        Shape { ctas, slice: (sizes.vocab as u32).div_ceil(ctas).next_multiple_of(128) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn few_requests_of_large_vocabularies_are_shared_by_clusters() {
        let on = |clusters, requests, vocab| Shape::on(clusters, 132, DraftSizes { requests, drafts: 4, vocab });
        assert_eq!(on(true, 1, 128_256), Shape { ctas: 8, slice: 16_128 });
        assert_eq!(on(true, 133, 128_256), Shape { ctas: 1, slice: 128_256 });
        assert_eq!(on(false, 1, 128_256), Shape { ctas: 1, slice: 128_256 });
        assert_eq!(on(true, 1, 8192), Shape { ctas: 1, slice: 8192 });
        assert_eq!(on(true, 1, 1), Shape { ctas: 1, slice: 128 });
        assert_eq!(on(true, 1, 0), Shape { ctas: 1, slice: 0 });
    }

    #[test]
    fn trees_of_the_most_nodes_fit_in_shared_memory() {
        // what a kernel has without being opted in
        assert!(tree_shared_bytes(attn_core::sampling::MAX_NODES as u32) <= 48 * 1024);
    }
}
