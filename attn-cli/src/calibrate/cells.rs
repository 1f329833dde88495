//! Which kernels are measured.

use std::fmt;

use attn::testing::{Case, LayoutKind, Lens};
use attn_core::spec::{KernelKind, PrefillTemplate};
use attn_kernels::cost::HookClass;

/// Query heads and KV heads of all that is measured.
pub(super) const QO_HEADS: u32 = 32;
pub(super) const KV_HEADS: u32 = 8;
const PAGE_SIZE: u32 = 16;

/// One row of the table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Wanted {
    pub(super) kind: KernelKind,
    /// Of prefill.
    pub(super) template: PrefillTemplate,
    /// Rows of a tile.
    pub(super) rows: u32,
    pub(super) fp8: bool,
    pub(super) head_dim: u32,
    pub(super) hooks: HookClass,
}

impl Wanted {
    /// All of one head_dim and type: those run on the same tensors.
    pub(super) fn over(head_dim: u32, fp8: bool) -> Vec<Wanted> {
        let of = |(kind, template, rows)| move |hooks| Wanted { kind, template, rows, fp8, head_dim, hooks };
        let classes = [HookClass::None, HookClass::Logits, HookClass::Rewrites];
        let (mma, warpgroups) = (PrefillTemplate::Mma, PrefillTemplate::Warpgroups);
        let mut kinds = vec![
            (KernelKind::Decode, mma, 8),
            (KernelKind::Decode, mma, 16),
            (KernelKind::Prefill, mma, 128),
            (KernelKind::Prefill, warpgroups, if head_dim > 64 { 128 } else { 192 }),
        ];
        kinds.retain(|&(.., rows)| rows != 16 || attn_kernels::cell::Cell::most_decode_rows(head_dim, head_dim) == 16);
        kinds.into_iter().flat_map(|kind| classes.map(of(kind))).collect()
    }

    /// A variant of the class.
    pub(super) fn variant(&self) -> &'static str {
        match self.hooks {
            HookClass::None => "full",
            HookClass::Logits => "soft_cap(cap=30)",
            HookClass::Rewrites => "rope",
        }
    }

    /// Queries that fill a tile of so many rows.
    pub(super) fn queries(rows: u32) -> u32 {
        rows.div_ceil(QO_HEADS / KV_HEADS)
    }

    /// Whether it is prefill in warpgroups, where there are such.
    pub(super) fn in_warpgroups(&self) -> bool {
        self.template == PrefillTemplate::Warpgroups
    }

    /// Whether tiles that read the same keys can be measured: a request of several tiles runs the largest there are.
    pub(super) fn shares_keys(&self) -> bool {
        self.kind == KernelKind::Prefill
            || self.rows == attn_kernels::cell::Cell::most_decode_rows(self.head_dim, self.head_dim)
    }

    /// A case that runs the kernel, over so many queries and keys of one request.
    pub(super) fn case(&self, queries: u32, keys: u32) -> Case {
        Case {
            name: Some(self.to_string()),
            kernel: self.kind.to_string(),
            prefill: self.template,
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

    /// What the table calls the element type of keys.
    pub(super) fn kv(&self) -> &'static str {
        if self.fp8 { "8-bit" } else { "16-bit" }
    }
}

impl fmt::Display for Wanted {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Wanted { kind, rows, head_dim, hooks, .. } = self;
        let hooks = hooks.name();
        match kind {
            KernelKind::Decode => write!(f, "decode of {rows} rows, {} keys, head_dim {head_dim}, {hooks}", self.kv()),
            KernelKind::Prefill | KernelKind::Mixed => {
                write!(f, "{kind} by {}, {} keys, head_dim {head_dim}, {hooks}", self.template, self.kv())
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
    fn every_row_is_a_case_of_its_kernel() {
        let dims = [64, 128, 256].into_iter().flat_map(|dim| [(dim, false), (dim, true)]);
        let all: Vec<Wanted> = dims.flat_map(|(dim, fp8)| Wanted::over(dim, fp8)).collect();
        assert_eq!(all.len(), 66);
        for wanted in all {
            let case = wanted.case(Wanted::queries(wanted.rows), 64);
            let sources = kernels::of_case(&case, Arch::for_device(9, 0)).expect("there is a kernel");
            assert_eq!(sources.len(), 1, "{wanted}");
            let cell = sources[0].cell;
            assert_eq!((cell.kind, cell.tile_rows), (wanted.kind, wanted.rows), "{wanted}");
            assert_eq!(cell.in_warpgroups(), wanted.in_warpgroups(), "{wanted}");
            assert_eq!(cell.dtypes.kv.is_fp8(), wanted.fp8);
            let variant = attn::testing::case_variant(&case).expect("stock");
            assert_eq!(HookClass::of(&variant), wanted.hooks);
        }
    }
}
