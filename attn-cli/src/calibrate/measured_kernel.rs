//! The kernels that are measured: one for each row of the cost table.

use std::fmt;

use attn_core::spec::{KernelKind, PrefillBackend};
use attn_kernels::{cost::HookClass, kernel_traits::KernelTraits};
use attn_testing::{Case, LayoutKind, Lens};

/// Query heads and KV heads of every measured batch.
pub(super) const QO_HEADS: u32 = 32;
pub(super) const KV_HEADS: u32 = 8;
const PAGE_SIZE: u32 = 16;

/// The kernel traits of one row of the table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct MeasuredKernel {
    pub(super) kind: KernelKind,
    /// The backend of prefill kernels.
    pub(super) backend: PrefillBackend,
    /// Rows of a tile.
    pub(super) rows: u32,
    pub(super) fp8: bool,
    pub(super) head_dim: u32,
    pub(super) hooks: HookClass,
}

impl MeasuredKernel {
    /// All kernels of one head_dim and key type. They run on the same tensors.
    pub(super) fn over(head_dim: u32, fp8: bool) -> Vec<MeasuredKernel> {
        let kernel = |(kind, backend, rows)| move |hooks| MeasuredKernel { kind, backend, rows, fp8, head_dim, hooks };
        let classes = [HookClass::None, HookClass::Logits, HookClass::Rewrites];
        let (sm80, sm90) = (PrefillBackend::Sm80, PrefillBackend::Sm90);
        let mut kinds = vec![
            (KernelKind::Decode, sm80, 8),
            (KernelKind::Decode, sm80, 16),
            (KernelKind::Prefill, sm80, 128),
            (KernelKind::Prefill, sm90, if head_dim > 64 { 128 } else { 192 }),
        ];
        kinds.retain(|&(.., rows)| rows != 16 || KernelTraits::max_decode_rows(head_dim, head_dim) == 16);
        kinds.into_iter().flat_map(|kind| classes.map(kernel(kind))).collect()
    }

    /// A variant with hooks of the class.
    pub(super) fn variant(&self) -> &'static str {
        match self.hooks {
            HookClass::None => "full",
            HookClass::Logits => "soft_cap(cap=30)",
            HookClass::Rewrites => "rope",
        }
    }

    /// Queries that fill a tile of `rows` rows.
    pub(super) fn queries(rows: u32) -> u32 {
        rows.div_ceil(QO_HEADS / KV_HEADS)
    }

    /// Whether this is the sm90 prefill kernel, with TMA and WGMMA.
    pub(super) fn is_sm90_prefill(&self) -> bool {
        self.backend == PrefillBackend::Sm90
    }

    /// Whether tiles that read the same keys can be measured. A request of several tiles runs the kernel with the
    /// largest tile.
    pub(super) fn shares_keys(&self) -> bool {
        self.kind == KernelKind::Prefill || self.rows == KernelTraits::max_decode_rows(self.head_dim, self.head_dim)
    }

    /// A case that runs the kernel over one request of `queries` and `keys`.
    pub(super) fn case(&self, queries: u32, keys: u32) -> Case {
        Case {
            name: Some(self.to_string()),
            kernel: self.kind.to_string(),
            prefill: self.backend,
            kv_dtype: self.fp8.then(|| "e4m3".to_owned()),
            qo_heads: QO_HEADS,
            kv_heads: KV_HEADS,
            head_dim: self.head_dim,
            kv_layout: LayoutKind::Paged,
            page_size: PAGE_SIZE,
            qo_lens: Lens::List(vec![queries]),
            kv_lens: Lens::List(vec![keys]),
            seed: 1,
            graph: true,
            ..Case::new(self.variant())
        }
    }

    /// The element type of keys, as in the table.
    pub(super) fn kv(&self) -> &'static str {
        if self.fp8 { "8-bit" } else { "16-bit" }
    }
}

impl fmt::Display for MeasuredKernel {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let MeasuredKernel { kind, rows, head_dim, hooks, .. } = self;
        let hooks = hooks.name();
        match kind {
            KernelKind::Decode => write!(f, "decode of {rows} rows, {} keys, head_dim {head_dim}, {hooks}", self.kv()),
            KernelKind::Prefill | KernelKind::Mixed => {
                write!(f, "{kind} by {}, {} keys, head_dim {head_dim}, {hooks}", self.backend, self.kv())
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use attn_kernels::compile::Arch;

    use super::*;
    use crate::kernels;

    #[test]
    fn the_case_of_every_row_runs_its_kernel() {
        let dims = [64, 128, 256].into_iter().flat_map(|dim| [(dim, false), (dim, true)]);
        let all: Vec<MeasuredKernel> = dims.flat_map(|(dim, fp8)| MeasuredKernel::over(dim, fp8)).collect();
        assert_eq!(all.len(), 66);
        for measured in all {
            let case = measured.case(MeasuredKernel::queries(measured.rows), 64);
            let sources = kernels::of_case(&case, Arch::for_device(9, 0)).expect("there is a kernel");
            assert_eq!(sources.len(), 1, "{measured}");
            let traits = sources[0].traits;
            assert_eq!((traits.kind, traits.tile_rows), (measured.kind, measured.rows), "{measured}");
            assert_eq!(traits.is_sm90_prefill(), measured.is_sm90_prefill(), "{measured}");
            assert_eq!(traits.dtypes.kv.is_fp8(), measured.fp8);
            let variant = attn_testing::case_variant(&case).expect("stock");
            assert_eq!(HookClass::of(&variant), measured.hooks);
        }
    }
}
