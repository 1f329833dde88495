//! What is said of a variant whose CUDA does not compile: the line of its Rust, and where to read the whole source.
#![allow(clippy::unwrap_used, clippy::print_stderr)]

use std::{fs, path::PathBuf};

use attn_core::{
    Registry, Variant,
    dtype::Dtypes,
    spec::{KernelKind, PrefillTemplate, ValueRows},
};
use attn_kernels::{
    cache::CubinCache,
    cell::{Cell, CellRequest},
    compile::{Arch, CompileError, nvrtc::Nvrtc},
    jit::{JitError, obtain_from},
    splice::KernelSource,
};

fn source(expr: &str) -> KernelSource {
    let mut registry = Registry::empty();
    registry.register_all(attn_variants::variants()).unwrap();
    let variant = Variant::parse_with(expr, &registry).unwrap();
    let (kind, dtypes, arch) = (KernelKind::Decode, Dtypes::f16(), Arch::new(8, 0));
    let request = CellRequest {
        kind,
        head_dim: 64,
        values: ValueRows::Same,
        dtypes,
        paged: false,
        group: 1,
        key_hooks: false,
        value_hooks: false,
        arch,
        key_lists: false,
        template: PrefillTemplate::default(),
    };
    KernelSource::build(&variant, &Cell::choose(&request).unwrap()).unwrap()
}

#[test]
fn the_rust_line_and_the_whole_source_are_named() {
    if let Err(error) = Nvrtc::find() {
        eprintln!("SKIPPED: {error}"); // `cargo xtask test` always brings one
        return;
    }
    let mut broken = source("causal + soft_cap(cap=30)");
    // what a mistake of the generator would look like: the text of a hook names what is not there
    let good = broken.text.clone();
    broken.text = good.replace("return cap_ *", "return no_such_field_ *");
    assert_ne!(broken.text, good);
    let dir = tempfile::tempdir().unwrap();
    let cache = CubinCache::at(dir.path(), 1 << 30);
    let error = obtain_from(&cache, broken.clone()).unwrap_err();
    let text = error.to_string();
    let JitError::Compile(CompileError::Rejected { log, source_file: Some(dumped), .. }) = error else {
        panic!("{text}")
    };
    // the line of soft_cap.rs that the hook's expression is on
    let rust = include_str!("../../variants/src/soft_cap.rs");
    let line = 1 + rust.lines().position(|line| line.contains("self.cap * approx::tanh")).unwrap();
    assert!(log.contains(&format!("soft_cap.rs({line})")) && log.contains("no_such_field_"), "{log}");
    assert!(text.contains("causal + soft_cap") && text.contains(dumped.to_str().unwrap()), "{text}");
    assert_eq!(fs::read_to_string(dumped).unwrap(), broken.text);
    let folders = fs::read_dir(dir.path()).unwrap().flatten().map(|entry| entry.path()).filter(|path| path.is_dir());
    let kept = folders.flat_map(|folder| fs::read_dir(folder).unwrap().flatten().map(|entry| entry.path()));
    assert_eq!(kept.collect::<Vec<_>>(), Vec::<PathBuf>::new(), "nothing is kept, no lock either");
}

#[test]
fn an_architecture_that_the_compiler_does_not_know_is_named_with_those_it_knows() {
    if let Err(error) = Nvrtc::find() {
        eprintln!("SKIPPED: {error}");
        return;
    }
    let mut source = source("causal");
    source.cell.arch = Arch::new(99, 9);
    let error = obtain_from(&CubinCache::off(), source).unwrap_err();
    let JitError::Compile(CompileError::UnknownToCompiler { known, .. }) = &error else { panic!("{error}") };
    assert!(known.iter().any(|arch| arch == "sm_80") && error.to_string().contains("sm_999"), "{error}");
}
