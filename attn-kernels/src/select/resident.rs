//! When prefill keeps the keys of a request in shared memory.

use attn_core::batch::Layout;
use attn_core::spec::{Heads, KernelKind, PrefillBackend};

use crate::kernel_traits::{KernelTraits, KernelTraitsRequest};

/// The prefill kernel whose keys stay in shared memory.
#[derive(Clone, Copy, Debug)]
pub(super) struct Resident {
    traits: KernelTraits,
    heads: Heads,
    /// Whether options name it: it then runs every batch that it can.
    named: bool,
}

impl Resident {
    /// The kernel for a problem, if there is one.
    pub(super) fn of(request: &KernelTraitsRequest, heads: Heads) -> Option<Self> {
        let named = request.prefill == PrefillBackend::Sm90Resident;
        if !named && request.prefill != PrefillBackend::Sm90 {
            return None;
        }
        let (kind, prefill) = (KernelKind::Prefill, PrefillBackend::Sm90Resident);
        let traits = KernelTraits::choose(&KernelTraitsRequest { kind, group: 1, prefill, ..*request }).ok()?;
        traits.facts().special.is_some().then_some(Resident { traits, heads, named })
    }

    /// Whether it runs a batch for which prefill was selected.
    pub(super) fn runs(&self, layout: &Layout, forced: Option<KernelKind>) -> bool {
        let faster = || {
            forced.is_none()
                && self.traits.kernel().is_faster(&self.traits.common)
                && self.traits.kernel().suits(layout, self.heads)
        };
        self.traits.kernel().runs(layout) && (self.named || faster())
    }
}

#[cfg(test)]
mod tests {
    use attn_core::{
        batch::{Batch, indptr},
        dtype::{Dtype, Dtypes},
        spec::ComputeType,
    };

    use super::*;
    use crate::compile::Arch;
    use crate::cost::{CostTable, HookClass};
    use crate::select::{KernelSelector, SelectedKernel};

    fn layout(lens: &[u32]) -> Layout {
        let lens = indptr(lens).expect("short");
        Batch::ragged(&lens, &lens).validate().expect("sound")
    }

    fn selector(qo: u32, head_dim: u32, prefill: PrefillBackend) -> KernelSelector {
        let of = KernelTraitsRequest::new(KernelKind::Prefill, head_dim, Dtypes::bf16(), Arch::for_device(9, 0));
        let heads = Heads { qo, kv: 8, head_dim };
        KernelSelector::new(&KernelTraitsRequest { prefill, ..of }, HookClass::None, &CostTable::default(), heads, 132)
            .expect("supported")
    }

    #[test]
    fn prefill_of_short_requests_keeps_their_keys_in_shared_memory() {
        let (short, long) = (layout(&[128; 64]), layout(&[128, 129]));
        let sm90 = selector(32, 128, PrefillBackend::Sm90);
        assert_eq!(sm90.select(&short), SelectedKernel::RESIDENT_PREFILL);
        assert_eq!(sm90.select(&long), SelectedKernel::PREFILL);
        let prefill = Some(KernelKind::Prefill);
        for other in [
            sm90.clone().without_resident(),
            sm90.clone().with_forced(prefill),
            sm90.with_fixed_split(true),
            selector(32, 256, PrefillBackend::Sm90),
            selector(32, 64, PrefillBackend::Sm90),
            selector(32, 128, PrefillBackend::Sm80),
        ] {
            assert_eq!(other.select(&short), SelectedKernel::PREFILL);
        }
        // 12 tokens of 5 heads are 60 rows of a warpgroup
        assert_eq!(selector(40, 128, PrefillBackend::Sm90).select(&short), SelectedKernel::RESIDENT_PREFILL);
        // options name it
        let named = selector(40, 128, PrefillBackend::Sm90Resident).with_forced(prefill);
        assert_eq!(named.select(&short), SelectedKernel::RESIDENT_PREFILL);
        assert_eq!(named.select(&long), SelectedKernel::PREFILL);
        assert_eq!(named.with_fixed_split(true).select(&short), SelectedKernel::PREFILL);
    }

    #[test]
    fn e4m3_compute_runs_in_the_usual_prefill_kernel_alone() {
        let dtypes = Dtypes::new(Dtype::Bf16, Dtype::E4m3);
        let of = KernelTraitsRequest::new(KernelKind::Prefill, 128, dtypes, Arch::for_device(9, 0));
        let heads = Heads { qo: 32, kv: 8, head_dim: 128 };
        let kernel = |compute_type, prefill, qo: &[u32]| {
            let of = KernelTraitsRequest { compute_type, prefill, ..of };
            let selector =
                KernelSelector::new(&of, HookClass::None, &CostTable::default(), heads, 132).expect("supported");
            let (qo, kv) = (indptr(qo).expect("short"), indptr(&vec![128; qo.len()]).expect("short"));
            (selector.select(&Batch::ragged(&qo, &kv).validate().expect("sound")), selector.mixed_rows)
        };
        for prefill in [PrefillBackend::Sm90, PrefillBackend::Sm90Resident] {
            let (exact, mixed_rows) = kernel(ComputeType::Exact, prefill, &[128; 64]);
            // with 8-bit keys it runs where options name it
            let named = prefill == PrefillBackend::Sm90Resident;
            let is = if named { SelectedKernel::RESIDENT_PREFILL } else { SelectedKernel::PREFILL };
            assert!(exact == is && !mixed_rows.is_empty());
            let (e4m3, mixed_rows) = kernel(ComputeType::E4m3, prefill, &[128; 64]);
            assert!(e4m3 == SelectedKernel::PREFILL && mixed_rows.is_empty());
        }
    }
}
