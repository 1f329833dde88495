//! Errors for a variant whose CUDA does not compile: they name the line of its Rust source, and a copy of the
//! translation unit. For CUDA of the caller they name its line there.
#![allow(clippy::unwrap_used)]

use std::{fs, path::PathBuf};

use attn_core::{dtype::Dtypes, spec::KernelKind};
use attn_kernels::cache::CubinCache;
use attn_kernels::compile::nvrtc::Nvrtc;
use attn_kernels::compile::{Arch, CompileError};
use attn_kernels::jit::{JitError, obtain_from};
use attn_kernels::kernel_traits::{KernelTraits, KernelTraitsRequest};
use attn_kernels::splice::{KernelSource, OpSource};
use attn_needs::{Need, has};

fn source(expr: &str) -> KernelSource {
    let variant = crate::stock::variant(expr);
    let request = KernelTraitsRequest::new(KernelKind::Decode, 64, Dtypes::f16(), Arch::new(8, 0));
    let request = KernelTraitsRequest { paged: false, ..request };
    KernelSource::build(&variant, &KernelTraits::choose(&request).unwrap()).unwrap()
}

#[test]
fn errors_name_the_rust_line_and_the_dumped_source() {
    if !has(Need::Nvrtc, Nvrtc::find()) {
        return;
    }
    let mut broken = source("causal + soft_cap(cap=30)");
    // imitates a mistake of the code generator: the text of a hook uses an undefined name
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
    // the line of the hook's expression in soft_cap.rs
    let rust = include_str!("../../../variants/src/scale/soft_cap.rs");
    let line = 1 + rust.lines().position(|line| line.contains("self.cap * approx::tanh")).unwrap();
    assert!(log.contains(&format!("soft_cap.rs({line})")) && log.contains("no_such_field_"), "{log}");
    assert!(text.contains("causal + soft_cap") && text.contains(dumped.to_str().unwrap()), "{text}");
    assert_eq!(fs::read_to_string(dumped).unwrap(), broken.text);
    let folders = fs::read_dir(dir.path()).unwrap().flatten().map(|entry| entry.path()).filter(|path| path.is_dir());
    let kept = folders.flat_map(|folder| fs::read_dir(folder).unwrap().flatten().map(|entry| entry.path()));
    assert_eq!(kept.collect::<Vec<_>>(), Vec::<PathBuf>::new(), "no entry and no lock is kept");
}

#[test]
fn errors_name_unknown_architectures() {
    if !has(Need::Nvrtc, Nvrtc::find()) {
        return;
    }
    let mut source = source("causal");
    source.traits.common.arch = Arch::new(99, 9);
    let error = obtain_from(&CubinCache::off(), source).unwrap_err();
    let JitError::Compile(CompileError::UnknownToCompiler { known, .. }) = &error else { panic!("{error}") };
    assert!(known.iter().any(|arch| arch == "sm_80") && error.to_string().contains("sm_999"), "{error}");
}

#[test]
fn errors_name_the_line_of_the_callers_source() {
    if !has(Need::Nvrtc, Nvrtc::find()) {
        return;
    }
    let text = "extern \"C\" __global__ void scale(const f16* x, float* y) {\n  y[0] = by * to_float(x[0]);\n}\n";
    let custom = |text: &str| OpSource::custom("my \"scale\"", text, Arch::new(8, 0)).unwrap();
    let error = obtain_from(&CubinCache::off(), custom(text)).unwrap_err().to_string();
    assert!(error.contains("my _scale_") && error.contains("(2)") && error.contains("\"by\""), "{error}");
    let ready = obtain_from(&CubinCache::off(), custom(&text.replace("by *", "2.f *"))).unwrap();
    assert!(!ready.compiled.cubin.is_empty());
}
