//! The kernels of verification, a CTA a request, compiled for the host.

use std::path::Path;

use attn_kernels::{
    launch::{CHAIN_SHARED_BYTES, VERIFY_THREADS, VerifyChainParams, VerifyTreeParams, tree_shared_bytes},
    splice::{Op, OpSource},
};
use libloading::Library;

use super::host_text::HostText;
use crate::host::library;

/// The kernels of verification.
#[derive(Debug)]
pub struct HostVerifier {
    chain: Library,
    tree: Library,
}

impl HostVerifier {
    /// Compiles the kernels in folders of `folder`.
    ///
    /// # Panics
    /// Their text does not compile.
    #[must_use]
    pub fn compile(folder: &Path) -> HostVerifier {
        let compile = |name: &str, op: Op, params: &str| {
            let folder = folder.join(name);
            std::fs::create_dir(&folder).expect("a folder for the test");
            let source = OpSource::build(op, "75".parse().expect("an architecture")).expect("a template").text;
            // few threads, so that each has many tokens
            let threads = format!("VERIFY_THREADS = {VERIFY_THREADS};");
            assert!(source.contains(&threads));
            let source = HostText::of(&source.replace(&threads, "VERIFY_THREADS = 96;"));
            let kernel = op.kernels()[0];
            let names = format!("#define VERIFY_KERNEL {kernel}\n#define VERIFY_PARAMS {params}\n");
            library(&folder, &source.with_launches(&[&names, include_str!("verifier.cpp")].concat()))
        };
        HostVerifier {
            chain: compile("chain", Op::VerifyChain { cluster: false }, "VerifyChainParams"),
            tree: compile("tree", Op::VerifyTree { cluster: false }, "VerifyTreeParams"),
        }
    }

    /// Verifies the chains of requests. The order of threads is random.
    ///
    /// # Panics
    /// The kernel writes beyond its shared memory.
    pub fn chain(&self, params: &VerifyChainParams, requests: usize, seed: u32) {
        run(&self.chain, params, requests, CHAIN_SHARED_BYTES, seed);
    }

    /// Verifies the trees of requests. The order of threads is random.
    ///
    /// # Panics
    /// The kernel writes beyond its shared memory.
    pub fn tree(&self, params: &VerifyTreeParams, requests: usize, nodes: usize, seed: u32) {
        run(&self.tree, params, requests, tree_shared_bytes(nodes as u32), seed);
    }
}

fn run<P>(library: &Library, params: &P, requests: usize, bytes: u32, seed: u32) {
    type Verify<P> = unsafe extern "C" fn(*const P, i32, u32, u32);
    // SAFETY: verifier.cpp defines it with this signature.
    let function = unsafe { library.get::<Verify<P>>(b"verify") }.expect("the harness has it");
    // SAFETY: every array is as long as the parameters say, and lives until the call returns.
    unsafe { function(params, requests as i32, bytes, seed) };
}
