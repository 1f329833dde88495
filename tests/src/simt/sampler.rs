//! The sampling kernel, a CTA a row, compiled for the host.

use std::path::Path;

use attn_core::{
    dtype::Dtype,
    sampling::{BLOCK_TOKENS, Source},
};
use attn_kernels::{
    launch::{SAMPLE_THREADS, SampleParams, sample_smem},
    splice::{Op, OpSource},
};
use libloading::Library;

use super::host_text::HostText;
use crate::host::library;

/// The sampling kernel of a type of rows.
#[derive(Debug)]
pub struct HostSampler {
    library: Library,
}

impl HostSampler {
    /// Compiles the kernel in `folder`.
    ///
    /// # Panics
    /// Its text does not compile.
    #[must_use]
    pub fn compile(from: Dtype, source: Source, folder: &Path) -> HostSampler {
        let op = Op::Sample { from, source, cluster: false };
        let arch = "75".parse().expect("an architecture");
        let source = OpSource::build(op, arch).expect("a template").text;
        // few threads, so that each has many tokens
        let [_, many, large] = SAMPLE_THREADS;
        let fewer = [("MANY", many, 64), ("LARGE", large, 96)];
        let source = fewer.into_iter().fold(source, |text, (name, of, to)| {
            let [of, to] = [of, to].map(|count: u32| format!("SAMPLE_{name} = {count};"));
            assert!(text.contains(&of));
            text.replace(&of, &to)
        });
        let text = HostText::of(&source).with_launches(include_str!("sampler.cpp"));
        HostSampler { library: library(folder, &text) }
    }

    /// Samples `rows` rows, which shared memory holds if `resident`. The order of threads is random.
    ///
    /// # Panics
    /// The kernel writes beyond its shared memory.
    pub fn run(&self, params: &SampleParams, rows: usize, resident: bool, seed: u32) {
        let slice = (params.vocab as usize).next_multiple_of(BLOCK_TOKENS) as i32;
        let params = SampleParams { slice, ..*params };
        let bytes = sample_smem(1, slice as u32, resident);
        type Sample = unsafe extern "C" fn(*const SampleParams, i32, u32, bool, u32);
        // SAFETY: sampler.cpp defines it with this signature.
        let function = unsafe { self.library.get::<Sample>(b"sample") }.expect("the harness has it");
        // SAFETY: every array is as long as the parameters say, and lives until the call returns.
        unsafe { function(&raw const params, rows as i32, bytes, resident, seed) };
    }
}
