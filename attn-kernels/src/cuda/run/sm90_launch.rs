//! The launch of sm90 prefill: its tensor maps, and a grid of persistent CTAs. Mixed kernels with it take the maps too.

use attn_core::tensor::{Kv, TensorRef};

use super::tensor_maps::{self, Extents, PackedRows};
use crate::{
    cuda::{
        CudaError, CudaPlan, CudaStream, Kernel,
        attention::bound::BoundAttention,
        driver::launch_kernel::{argument, launch_with},
    },
    launch::{KernelParams, Sm90Params, Strided, TensorMap},
};

impl CudaPlan {
    /// Launches the main kernel of a branch. The kernel is persistent: the grid has as many CTAs as the device holds,
    /// and each CTA takes work tiles from the dynamic tile scheduler until none is left.
    pub(in crate::cuda) fn launch_sm90(
        &self,
        stream: &CudaStream,
        of_all: &KernelParams,
        number: usize,
        layer: Option<&BoundAttention>,
        kv: &Kv<'_>,
        qo_tokens: [usize; 2],
    ) -> Result<(), CudaError> {
        let (branch, kv_heads) = (&self.branches[number], self.attention.heads.kv);
        let params = self.branch_params(number, *of_all);
        let traits = branch.kernel.traits();
        let params = KernelParams { k: traits.in_pairs(params.k), ..params };
        let items = self.sections.lists.parts[number].items.len() as u32;
        let sm90 = self.sm90_params(&params, &branch.kernel, kv, qo_tokens, items)?;
        let ctas = (items * kv_heads).min(branch.kernel.resident_ctas());
        let args = self.args_of(number, layer).bytes();
        let (grid, threads, smem) = ((ctas, 1), traits.threads(), traits.smem_bytes());
        let mut arguments = [argument(&params), args.as_ptr().cast_mut().cast(), argument(&sm90)];
        // SAFETY: as for the other launches of `CudaPlan::run`; sm90 prefill takes the third argument.
        unsafe { launch_with(branch.kernel.main, grid, threads, smem, stream, &mut arguments) }
    }

    /// The third parameter of a kernel with sm90 prefill, for a number of prefill items. Keys of `params` are as the
    /// kernel reads them ([`in_pairs`](crate::kernel_traits::KernelTraits::in_pairs)).
    pub(super) fn sm90_params(
        &self,
        params: &KernelParams,
        kernel: &Kernel,
        kv: &Kv<'_>,
        qo_tokens: [usize; 2],
        items: u32,
    ) -> Result<Sm90Params, CudaError> {
        let (attention, traits) = (&self.attention, kernel.traits());
        let kv_heads = attention.heads.kv;
        let page_size = self.layout.pages().map_or(0, |pages| pages.page_size());
        let paged_rows =
            if traits.paged { tensor_maps::page_box_rows(traits, page_size, [&params.k, &params.v]) } else { 0 };
        let tokens = self.preprocess_tokens;
        // rows of preprocessed keys or values, and elements of 16 bits of a row
        let (key_elements, value_rows, value_elements) = match traits.e4m3_products {
            true => {
                let rows = traits.transposed_rows(tokens.into(), self.requests().into());
                (traits.head_dim / 2, rows, traits.tile_keys / 2)
            }
            false => (traits.head_dim, tokens.into(), traits.value_dim),
        };
        let map =
            |stored: &TensorRef<'_>, at: Strided, preprocessed: Option<(Strided, u64)>, dim: u32| match preprocessed {
                Some((preprocessed, rows)) => {
                    let extents = Extents { dim, tokens: rows, heads: kv_heads, pages: 1 };
                    tensor_maps::kv_map(&preprocessed, extents, traits.tile_keys)
                }
                None if traits.paged && paged_rows == 0 => Ok(TensorMap::default()),
                None => {
                    let rows = if traits.paged { paged_rows } else { traits.tile_keys };
                    tensor_maps::kv_map(&at, Extents::of(stored, dim, kv_heads), rows)
                }
            };
        let group = attention.heads.qo / kv_heads;
        let packed = |dim: u32, tokens: usize| PackedRows {
            group,
            extents: Extents { dim, tokens: tokens as u64, heads: attention.heads.qo, pages: 1 },
        };
        let q = packed(traits.head_dim, qo_tokens[0]).queries(traits, &params.q)?;
        let o = packed(traits.value_dim, qo_tokens[1]).outputs(&params.o)?;
        Ok(Sm90Params {
            k: map(&kv.k, params.k, traits.preprocess_keys.then_some((params.k_pre, tokens.into())), key_elements)?,
            v: map(&kv.v, params.v, traits.preprocess_values.then_some((params.v_pre, value_rows)), value_elements)?,
            q: q.unwrap_or_default(),
            o: o.unwrap_or_default(),
            box_rows: paged_rows as i32,
            items: items as i32,
            heads: self.head_order.interleaved_heads(traits, tokens).min(kv_heads) as i32,
            use_tma_q: q.is_some().into(),
            use_tma_o: o.is_some().into(),
            ..Sm90Params::default()
        })
    }
}
