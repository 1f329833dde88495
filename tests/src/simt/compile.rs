//! The text of a kernel for a host compiler.

use std::path::Path;

use attn::{expr::Variant, spec::KernelKind};
use attn_kernels::{
    kernel_traits::{KernelTraits, KernelTraitsRequest},
    splice::KernelSource,
};
use attn_testing::Case;

use super::kernel::{FIBERS, HostKernel};
use crate::host::library;

/// Headers that `simt/cuda.cpp` replaces.
const REPLACED: [&str; 2] = ["cuda/arch/element.cuh", "cuda/arch/ptx.cuh"];

/// Compiles the kernel of one branch of a case's variant in `folder`.
pub(super) fn kernel(case: &Case, variant: &Variant, branch: Variant, folder: &Path) -> HostKernel {
    let traits = traits(case, variant, &branch);
    let source = KernelSource::build(&branch, &traits).expect("supported").text;
    let launches = match traits.kind {
        KernelKind::Prefill => "LAUNCH(launch_main, attn_prefill, KernelParams, THREADS, SMEM_BYTES)",
        KernelKind::Decode => "LAUNCH(launch_main, attn_decode, KernelParams, THREADS, SMEM_BYTES)",
        KernelKind::Mixed => {
            "LAUNCH(launch_main, attn_mixed, MixedParams, prefill::THREADS, SMEM_BYTES)\n\
             LAUNCH(launch_merge, prefill::attn_merge, MixedParams, prefill::MERGE_THREADS, 0)"
        }
    };
    let text = [FIBERS, include_str!("cuda.cpp"), &on_host(&source), include_str!("launch.cpp"), launches, "\n"];
    HostKernel { library: library(folder, &text.concat()), traits, variant: branch }
}

fn traits(case: &Case, variant: &Variant, branch: &Variant) -> KernelTraits {
    let kind = match case.kernel.as_str() {
        "prefill" => KernelKind::Prefill,
        "mixed" => KernelKind::Mixed,
        _ => KernelKind::Decode,
    };
    let queries = case.qo_lens.to_vec().into_iter().max().unwrap_or(1).max(1);
    let dtypes = case.dtypes().expect("known types");
    let arch = "75".parse().expect("an architecture");
    let request = KernelTraitsRequest {
        head_dim_vo: case.head_dim_vo,
        paged: case.kv_layout.paged(),
        group: if kind == KernelKind::Mixed { case.heads().group() } else { queries * case.heads().group() },
        prefill: case.prefill,
        decode: case.decode,
        row_invariant: case.fixed_split_size.is_some(),
        ..KernelTraitsRequest::new(kind, case.head_dim, dtypes, arch).with_hooks([branch])
    };
    let request = KernelTraitsRequest { key_lists: variant.has_kv_list(), ..request };
    let traits = KernelTraits::choose(&request).expect("supported");
    assert!(traits.cuda_cores && traits.decode_part().cuda_cores, "{}", traits.describe());
    if case.kv_layout.levels() { traits.with_shared_rows() } else { traits }
}

/// A kernel's text without the headers that are replaced.
pub(super) fn on_host(source: &str) -> String {
    let mut text = String::new();
    let mut replaced = false;
    for line in source.lines() {
        if line.starts_with("#line") {
            replaced = REPLACED.iter().any(|header| line.ends_with(&format!("\"{header}\"")));
        }
        if !replaced {
            text.push_str(&line.replace("extern __shared__", "extern"));
            text.push('\n');
        }
    }
    text
}
