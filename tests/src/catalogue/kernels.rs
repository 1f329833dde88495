//! The kernel traits of a case, as they are selected for an H200.

use attn_core::Variant;
use attn_core::spec::KernelKind;
use attn_kernels::compile::Arch;
use attn_kernels::kernel_traits::{KernelTraits, KernelTraitsRequest};
use attn_testing::Case;

/// The kernel traits of each branch of a case's bound variant. Only a union has several branches.
///
/// # Panics
/// There is no kernel for the case.
pub fn kernel_traits(case: &Case, variant: &Variant) -> Vec<(Variant, KernelTraits)> {
    let heads = case.heads();
    let max_qo_len = case.qo_lens.to_vec().into_iter().max().unwrap_or(1).max(1);
    let rows_of_list =
        variant.kv_list_sizes().map(|(_, queries)| max_qo_len.min(queries as u32).saturating_mul(heads.group()));
    let kind = case.kernel.parse::<KernelKind>().expect("a kernel kind");
    let arch = "sm_90a".parse::<Arch>().expect("an architecture");
    let request = KernelTraitsRequest {
        head_dim_vo: case.head_dim_vo,
        paged: case.kv_layout.paged(),
        group: rows_of_list.unwrap_or(heads.group()),
        ..KernelTraitsRequest::new(kind, heads.head_dim, case.dtypes().expect("types"), arch)
    };
    let choose = |branch: Variant| {
        let traits = KernelTraits::choose(&request.with_hooks([&branch]));
        let traits = traits.unwrap_or_else(|error| panic!("{}: {error}", case.title()));
        (branch, traits)
    };
    variant.branches().into_iter().map(choose).collect()
}
