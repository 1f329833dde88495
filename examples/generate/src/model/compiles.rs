//! Whether kernels in CUDA C++ compile, for tests.

use attn_kernels::{
    cache::CubinCache,
    compile::{Arch, nvrtc::Nvrtc},
    jit::obtain_from,
    splice::OpSource,
};
use attn_needs::{Need, has};

/// Checks that a text with one entry compiles for every architecture, and spills nothing. Skipped without a compiler.
pub(crate) fn compiles(name: &str, text: &str, entry: &str) {
    if !has(Need::Nvrtc, Nvrtc::find()) {
        return;
    }
    for arch in ["sm_80", "sm_86", "sm_89", "sm_90a", "sm_100a", "sm_120"] {
        let arch: Arch = arch.parse().expect("an architecture");
        let source = OpSource::custom(name, text, arch).expect("the templates are sound");
        let ready = obtain_from(&CubinCache::off(), source).expect("it compiles");
        let log = &ready.compiled.log;
        assert!(log.contains(entry), "{arch}: {log}");
        assert!(!log.contains("spill stores") || log.contains(" 0 bytes spill stores"), "{arch}: {log}");
    }
}
