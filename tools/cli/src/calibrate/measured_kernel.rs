//! The kernels that are measured: one for each row of the cost table.

use std::fmt;

use attn_core::dtype::Dtypes;
use attn_core::spec::{DecodeBackend, KernelKind, PrefillBackend};
use attn_kernels::{compile::Arch, cost::HookClass, kernel_traits::KernelTraitsRequest};
use attn_testing::{Case, LayoutKind, Lens};

/// Query heads and KV heads of every measured batch.
pub(super) const QO_HEADS: u32 = 32;
pub(super) const KV_HEADS: u32 = 8;
const PAGE_SIZE: u32 = 16;

/// The kernel traits of one row of the table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct MeasuredKernel {
    pub(super) kind: KernelKind,
    /// The backend; decode is on tensor cores but for `CudaCores`.
    pub(super) prefill: PrefillBackend,
    /// Rows of a tile.
    pub(super) rows: u32,
    /// Bits of an element of K and V.
    pub(super) kv_bits: u32,
    pub(super) head_dim: u32,
    pub(super) hooks: HookClass,
}

impl MeasuredKernel {
    /// All kernels of one head_dim and key type. They run on the same tensors.
    pub(super) fn over(head_dim: u32, kv_bits: u32) -> Vec<MeasuredKernel> {
        let (sm80, cuda_cores) = (PrefillBackend::Sm80, PrefillBackend::CudaCores);
        let (decode, prefill) = (KernelKind::Decode, KernelKind::Prefill);
        let of_tensor_cores = [
            (decode, sm80, 8),
            (decode, sm80, 16),
            (prefill, sm80, 128),
            (prefill, PrefillBackend::Sm90, if head_dim > 64 { 128 } else { 192 }),
        ];
        let of_tensor_cores = of_tensor_cores.into_iter().filter(|&(.., rows)| {
            kv_bits < 32 && (rows != 16 || Self::max_decode_rows(head_dim, DecodeBackend::TensorCores) == 16)
        });
        // the partial states of a tile fit a stage
        let rows = if kv_bits == 8 { 16 } else { 32 };
        let of_cuda_cores = [(decode, cuda_cores, 4), (decode, cuda_cores, 8), (prefill, cuda_cores, rows)];
        let kernel =
            |(kind, prefill, rows)| move |hooks| MeasuredKernel { kind, prefill, rows, kv_bits, head_dim, hooks };
        let classes = [HookClass::None, HookClass::Logits, HookClass::Rewrites];
        of_tensor_cores.chain(of_cuda_cores).flat_map(|kind| classes.map(kernel(kind))).collect()
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
        self.prefill == PrefillBackend::Sm90
    }

    /// Whether the kernel runs on CUDA cores.
    pub(super) fn cuda_cores(&self) -> bool {
        self.prefill == PrefillBackend::CudaCores
    }

    /// The decode backend.
    pub(super) fn decode(&self) -> DecodeBackend {
        if self.cuda_cores() { DecodeBackend::CudaCores } else { DecodeBackend::TensorCores }
    }

    /// The backend in the files of measured costs, where the kind does not say it.
    pub(super) fn backend(&self) -> Option<&'static str> {
        match self.prefill {
            PrefillBackend::Sm80 => None,
            PrefillBackend::Sm90 | PrefillBackend::Sm90Resident => Some("sm90"),
            PrefillBackend::CudaCores => Some("cuda-cores"),
        }
    }

    /// Whether tiles that read the same keys can be measured. A request of several tiles runs the kernel with the
    /// largest tile.
    pub(super) fn shares_keys(&self) -> bool {
        self.kind == KernelKind::Prefill || self.rows == Self::max_decode_rows(self.head_dim, self.decode())
    }

    fn max_decode_rows(head_dim: u32, backend: DecodeBackend) -> u32 {
        let of = KernelTraitsRequest::new(KernelKind::Decode, head_dim, Dtypes::bf16(), Arch::new(8, 0));
        KernelTraitsRequest { decode: Some(backend), ..of }.max_decode_rows()
    }

    /// A case that runs the kernel over one request of `queries` and `keys`.
    pub(super) fn case(&self, queries: u32, keys: u32) -> Case {
        Case {
            name: Some(self.to_string()),
            kernel: self.kind.to_string(),
            prefill: self.prefill,
            decode: Some(self.decode()),
            dtype: if self.kv_bits == 32 { "f32" } else { "bf16" }.to_owned(),
            kv_dtype: (self.kv_bits == 8).then(|| "e4m3".to_owned()),
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
    pub(super) fn kv(&self) -> String {
        format!("{}-bit", self.kv_bits)
    }
}

impl fmt::Display for MeasuredKernel {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let MeasuredKernel { kind, rows, head_dim, hooks, .. } = self;
        let (hooks, kv) = (format!("{hooks:?}").to_lowercase(), self.kv());
        match kind {
            KernelKind::Decode => {
                write!(f, "decode on {} of {rows} rows, {kv} keys, head_dim {head_dim}, {hooks}", self.decode())
            }
            KernelKind::Prefill | KernelKind::Mixed => {
                write!(f, "{kind} by {}, {kv} keys, head_dim {head_dim}, {hooks}", self.prefill)
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use attn_kernels::cost::CostTable;

    use super::*;
    use crate::kernels;

    #[test]
    fn the_case_of_every_row_runs_its_kernel() {
        let dims = [64, 128, 256].into_iter().flat_map(|dim| [8, 16, 32].map(|bits| (dim, bits)));
        let all: Vec<MeasuredKernel> = dims.flat_map(|(dim, bits)| MeasuredKernel::over(dim, bits)).collect();
        assert_eq!(all.len(), 66 + 81);
        for measured in all {
            let case = measured.case(MeasuredKernel::queries(measured.rows), 64);
            let sources =
                kernels::of_case(&case, Arch::for_device(9, 0), &CostTable::default()).expect("there is a kernel");
            assert_eq!(sources.len(), 1, "{measured}");
            let traits = sources[0].traits;
            assert_eq!((traits.kind(), traits.facts().tile_rows), (measured.kind, measured.rows), "{measured}");
            assert_eq!(traits.is_sm90_prefill(), measured.is_sm90_prefill(), "{measured}");
            assert_eq!(
                (traits.facts().on_cuda_cores, traits.common.dtypes.kv.size() as u32 * 8),
                (measured.cuda_cores(), measured.kv_bits)
            );
            let variant = attn_testing::case_variant(&case).expect("stock");
            assert_eq!(HookClass::of(&variant), measured.hooks);
        }
    }
}
