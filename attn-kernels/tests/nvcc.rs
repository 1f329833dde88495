//! nvcc takes what NVRTC takes, and its log is understood. Skipped where there is no nvcc.
#![allow(clippy::unwrap_used, clippy::print_stderr)]

use attn_core::{
    Registry, Variant,
    dtype::Dtypes,
    spec::{KernelKind, PrefillTemplate, ValueRows},
};
use attn_kernels::{
    cell::{Cell, CellRequest},
    compile::{Compiler, nvcc::Nvcc},
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
        let request = CellRequest {
            kind,
            head_dim: 128,
            values: ValueRows::Same,
            dtypes,
            paged: true,
            group: 4,
            key_hooks,
            value_hooks,
            arch,
            key_lists: false,
            template: PrefillTemplate::default(),
        };
        let source = KernelSource::build(&variant, &Cell::choose(&request).unwrap()).unwrap();
        let compiled = nvcc.compile(&source.name, &source.text, arch).unwrap_or_else(|error| panic!("{error}"));
        assert!(compiled.cubin.starts_with(b"\x7fELF"));
        let kernels: Vec<_> = compiled.resources().into_iter().map(|r| r.kernel).collect();
        let merges = kind == KernelKind::Prefill; // decode does so by itself
        assert!(kernels.contains(&format!("attn_{kind}")), "{kernels:?}");
        assert_eq!(kernels.contains(&"attn_merge".to_owned()), merges, "{kernels:?}");
    }
}
