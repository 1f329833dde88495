//! The launch of sm90 prefill: its tensor maps, and a grid of persistent CTAs. Mixed kernels with it take the maps too.

use attn_core::{spec::Heads, tensor::TensorRef};

use super::tensor_maps::{self, Extents, PackedRows};
use super::tensors::RunTensors;
use crate::cuda::driver::launch_kernel::{argument, launch_with};
use crate::cuda::plan::launches::Launches;
use crate::cuda::{CudaError, CudaStream, Kernel};
use crate::launch::{KernelParams, PackedParams, Sm90Params, Strided, box_rows};

/// Launches the main kernel of a branch for a number of work tiles. The kernel is persistent: the grid has as many CTAs
/// as the device holds, and each CTA, or cluster, takes work tiles from the tile scheduler until none is left.
///
/// # Safety
///
/// What [`launch_with`] asks: `params`, `args` and `sm90` are of this kernel, and all memory that they point to is
/// valid.
pub(super) unsafe fn launch_sm90(
    stream: &CudaStream,
    kernel: &Kernel,
    tiles: u32,
    params: &PackedParams,
    sm90: &Sm90Params,
    args: &[u8],
) -> Result<(), CudaError> {
    let traits = kernel.traits();
    let ctas = tiles.min(kernel.resident_ctas()) * traits.facts().cluster_ctas;
    let mut arguments = [argument(params), args.as_ptr().cast_mut().cast(), argument(sm90)];
    // SAFETY: by the caller's promise; sm90 prefill takes the third argument.
    unsafe { launch_with(kernel.main, (ctas, 1), traits.threads(), traits.smem_bytes(), stream, &mut arguments) }
}

/// The third parameter of a kernel with sm90 prefill, for a number of prefill items. Keys of `params` are as the kernel
/// reads them ([`in_pairs`](crate::kernel_traits::KernelTraits::in_pairs)).
pub(super) fn sm90_params(
    heads: Heads,
    launches: &Launches,
    kernel: &Kernel,
    items: u32,
    params: &KernelParams,
    tensors: &RunTensors<'_>,
) -> Result<Sm90Params, CudaError> {
    let (traits, kv, tokens) = (kernel.traits(), &tensors.kv, launches.preprocess_tokens);
    let [keys, values] = traits.facts().preprocessed;
    let page_size = traits.common.paged.then_some(params.page_size.divisor);
    let list_block = Some(params.list_block.divisor).filter(|&keys| keys > 0);
    // keys that are neither in pages nor listed have no other way
    let fits = page_size.or(list_block).is_none() || [&params.k, &params.v].into_iter().all(tensor_maps::is_mappable);
    let rows = if fits { box_rows(traits, page_size, list_block) } else { 0 };
    let (key_elements, value_elements, value_rows) = traits.kv_extents(tokens.into(), launches.requests.into());
    // of keys or values: the map of what the preprocessing kernel writes (and its rows), else of the tensor itself
    let kv_map =
        |stored: &TensorRef<'_>, at: Strided, preprocessed: Option<(Strided, u64)>, dim: u32| match preprocessed {
            Some((preprocessed, tokens)) => {
                let rows = if list_block.is_some() { rows } else { traits.facts().tile_keys };
                tensor_maps::kv_map(&preprocessed, Extents { dim, tokens, heads: heads.kv, pages: 1 }, rows)
            }
            None => tensor_maps::kv_map(&at, Extents::of(stored, dim, heads.kv), rows),
        };
    let packed = |dim: u32, tokens: usize| PackedRows {
        group: heads.qo / heads.kv,
        extents: Extents { dim, tokens: tokens as u64, heads: heads.qo, pages: 1 },
    };
    // stored queries are converted as they are loaded
    let q = match traits.common.dtypes.q {
        None => packed(traits.common.head_dim, tensors.q.shape()[0]).queries(traits, &params.q)?,
        Some(_) => None,
    };
    // outputs of another type are stored row by row
    let o = match traits.common.dtypes.o {
        None => packed(traits.common.value_dim, tensors.out.o.shape()[0]).outputs(&params.o)?,
        Some(_) => None,
    };
    Ok(Sm90Params {
        k: kv_map(&kv.k, params.k, keys.then_some((params.k_pre, tokens.into())), key_elements)?,
        v: kv_map(&kv.v, params.v, values.then_some((params.v_pre, value_rows)), value_elements)?,
        q: q.unwrap_or_default(),
        o: o.unwrap_or_default(),
        box_rows: rows as i32,
        items: items as i32,
        heads: launches.head_order.interleaved_heads(traits, tokens).min(heads.kv) as i32,
        use_tma_q: q.is_some().into(),
        use_tma_o: o.is_some().into(),
        skip_threshold: launches.skip_threshold,
        ..Sm90Params::default()
    })
}
