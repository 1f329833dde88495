//! The kernels of a case, compiled for the host.

use std::path::Path;

use attn::{
    expr::Variant,
    spec::{KernelKind, PrefillBackend},
};
use attn_kernels::{
    kernel_traits::{KernelTraits, KernelTraitsRequest},
    splice::KernelSource,
};
use attn_testing::Case;

use super::{host_text::HostText, kernel::HostKernel};
use crate::host::library;

/// Compiles the kernel of one branch of a case's variant in `folder`.
pub(super) fn kernel(case: &Case, variant: &Variant, branch: Variant, folder: &Path) -> HostKernel {
    let traits = traits(case, variant, &branch);
    let source = KernelSource::build(&branch, &traits).expect("supported").text;
    let text = HostText::of(&source).with_launches(&launches(&traits));
    HostKernel { library: library(folder, &text), traits, variant: branch }
}

/// Functions that launch the kernels of a unit.
fn launches(traits: &KernelTraits) -> String {
    let (main, part) = match traits.kind {
        KernelKind::Prefill => ("attn_prefill, KernelParams, THREADS", ""),
        KernelKind::Decode => ("attn_decode, KernelParams, THREADS", ""),
        KernelKind::Mixed => ("attn_mixed, MixedParams, prefill::THREADS", "prefill::"),
    };
    let mut text = format!("LAUNCH(launch_main, {main}, SMEM_BYTES)\n");
    let params = if traits.kind == KernelKind::Mixed { "MixedParams" } else { "KernelParams" };
    if traits.has_kv_preprocess() {
        let threads = format!("{part}KV_PREPROCESS_THREADS");
        text += &format!("LAUNCH(launch_kv_preprocess, {part}attn_kv_preprocess, {params}, {threads}, 0)\n");
    }
    if !traits.merges_in_kernel() {
        text += &format!("LAUNCH(launch_merge, {part}attn_merge, {params}, {part}MERGE_THREADS, 0)\n");
    }
    text
}

fn traits(case: &Case, variant: &Variant, branch: &Variant) -> KernelTraits {
    let kind = match case.kernel.as_str() {
        "prefill" => KernelKind::Prefill,
        "mixed" => KernelKind::Mixed,
        _ => KernelKind::Decode,
    };
    let queries = case.qo_lens.to_vec().into_iter().max().unwrap_or(1).max(1);
    let dtypes = case.dtypes().expect("known types");
    let arch = match case.prefill {
        PrefillBackend::CudaCores => "75",
        PrefillBackend::Sm80 => "80",
        PrefillBackend::Sm90 => "90a",
    };
    let request = KernelTraitsRequest {
        head_dim_vo: case.head_dim_vo,
        paged: case.kv_layout.paged(),
        group: if kind == KernelKind::Mixed { case.heads().group() } else { queries * case.heads().group() },
        prefill: case.prefill,
        decode: case.decode,
        ..KernelTraitsRequest::new(kind, case.head_dim, dtypes, arch.parse().expect("an architecture"))
            .with_hooks([branch])
    };
    let request = KernelTraitsRequest { key_lists: variant.has_kv_list(), ..request };
    let traits = KernelTraits::choose(&request).expect("supported");
    let on_cuda_cores = case.prefill == PrefillBackend::CudaCores;
    assert!(
        traits.cuda_cores == on_cuda_cores && traits.decode_part().cuda_cores == on_cuda_cores,
        "{}",
        traits.describe()
    );
    if case.kv_layout.levels() { traits.with_shared_rows() } else { traits }
}
