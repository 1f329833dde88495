//! nvcc compiles the same sources as NVRTC, and its log is parsed. Skipped without nvcc.
#![allow(clippy::unwrap_used, clippy::print_stderr)]

use attn_core::{
    Registry, Variant,
    dtype::Dtypes,
    spec::{HeadDimVo, KernelKind, PrefillBackend},
};
use attn_kernels::{
    compile::{Compiler, nvcc::Nvcc},
    kernel_traits::{KernelTraits, KernelTraitsRequest},
    splice::{KernelSource, has_key_hooks, has_value_hooks},
};

#[test]
fn nvcc_compiles_the_same_sources() {
    let nvcc = match Nvcc::find() {
        Ok(nvcc) => Compiler::Nvcc(nvcc),
        Err(error) => {
            eprintln!("SKIPPED: {error}");
            return;
        }
    };
    let mut registry = Registry::empty();
    registry.register_all(attn_variants::variants()).unwrap();
    let variant = Variant::parse_with("causal + alibi + qk_norm + rope + sink", &registry).unwrap();
    for kind in [KernelKind::Prefill, KernelKind::Decode] {
        let (dtypes, arch) = (Dtypes::bf16(), "sm_90a".parse().unwrap());
        let (key_hooks, value_hooks) = (has_key_hooks(&variant), has_value_hooks(&variant));
        let request = KernelTraitsRequest {
            kind,
            head_dim: 128,
            head_dim_vo: HeadDimVo::Same,
            dtypes,
            paged: true,
            group: 4,
            key_hooks,
            value_hooks,
            arch,
            key_lists: false,
            prefill: PrefillBackend::default(),
        };
        let source = KernelSource::build(&variant, &KernelTraits::choose(&request).unwrap()).unwrap();
        let compiled = nvcc.compile(&source.name, &source.text, arch).unwrap_or_else(|error| panic!("{error}"));
        assert!(compiled.cubin.starts_with(b"\x7fELF"));
        let kernels: Vec<_> = compiled.resources().into_iter().map(|r| r.kernel).collect();
        let merges = kind == KernelKind::Prefill; // decode merges in the main kernel
        assert!(kernels.contains(&format!("attn_{kind}")), "{kernels:?}");
        assert_eq!(kernels.contains(&"attn_merge".to_owned()), merges, "{kernels:?}");
    }
}
