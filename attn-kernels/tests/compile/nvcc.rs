//! nvcc compiles the same sources as NVRTC, and its log is parsed. Skipped without nvcc.
#![allow(clippy::unwrap_used)]

use attn_core::{dtype::Dtypes, spec::KernelKind};
use attn_kernels::compile::Compiler;
use attn_kernels::compile::nvcc::Nvcc;
use attn_kernels::kernel_traits::{KernelTraits, KernelTraitsRequest};
use attn_kernels::splice::KernelSource;
use attn_needs::{Need, needed};

#[test]
fn nvcc_compiles_the_same_sources() {
    let Some(nvcc) = needed(Need::Nvcc, Nvcc::find()) else { return };
    let nvcc = Compiler::Nvcc(nvcc);
    let variant = crate::stock::variant("causal + alibi + qk_norm + rope + sink");
    for kind in [KernelKind::Prefill, KernelKind::Decode] {
        let arch = "sm_90a".parse().unwrap();
        let request = KernelTraitsRequest::new(kind, 128, Dtypes::bf16(), arch).with_hooks([&variant]);
        let request = KernelTraitsRequest { group: 4, ..request };
        let source = KernelSource::build(&variant, &KernelTraits::choose(&request).unwrap()).unwrap();
        let compiled = nvcc.compile(&source.name, &source.text, arch).unwrap_or_else(|error| panic!("{error}"));
        assert!(compiled.cubin.starts_with(b"\x7fELF"));
        let kernels: Vec<_> = compiled.resources().into_iter().map(|r| r.kernel).collect();
        let merges = kind == KernelKind::Prefill; // decode merges in the main kernel
        assert!(kernels.contains(&format!("attn_{kind}")), "{kernels:?}");
        assert_eq!(kernels.contains(&"attn_merge".to_owned()), merges, "{kernels:?}");
    }
}
