//! Kernels on CUDA cores, compiled for the host: the threads of a CTA are fibers (`simt/fibers.cpp`), and the wrappers
//! of PTX are replaced (`simt/cuda.cpp`). A run is compared with the f64 reference.

mod compile;
mod kernel;
mod run;
mod sampler;
mod verifier;

use std::path::Path;

use attn::expr::Variant;
use attn_testing::{Case, Distance, case_variant};

pub use kernel::FIBERS;
use kernel::HostKernel;
pub use sampler::HostSampler;
pub use verifier::HostVerifier;

/// The kernels of a case, compiled for the host.
#[derive(Debug)]
pub struct HostKernels {
    variant: Variant,
    /// The kernel of each branch of a union; else one.
    branches: Vec<HostKernel>,
}

impl HostKernels {
    /// Compiles the kernels of a case, which must be on CUDA cores, in folders of `folder`.
    ///
    /// # Panics
    /// There are no such kernels, or their text does not compile.
    #[must_use]
    pub fn compile(case: &Case, folder: &Path) -> HostKernels {
        let variant = case_variant(case).expect("stock variants").bind(&case.dims()).expect("a case has all lengths");
        let branches = variant.branches().into_iter().enumerate().map(|(number, branch)| {
            let folder = folder.join(number.to_string());
            std::fs::create_dir(&folder).expect("a folder for the test");
            compile::kernel(case, &variant, branch, &folder)
        });
        HostKernels { branches: branches.collect(), variant }
    }

    /// Runs the kernels over the inputs of the case, with threads in random order, on a device that holds `ctas` CTAs
    /// at a time. Returns the distance from the reference.
    ///
    /// # Panics
    /// The case cannot be planned.
    #[must_use]
    pub fn run(&self, case: &Case, ctas: u32, seed: u32) -> Distance {
        run::run(case, &self.variant, &self.branches, ctas, seed)
    }

    /// As [`run`](Self::run), and returns the bits of the output, in words that may end in NaN, and those of the
    /// log-sum-exps.
    ///
    /// # Panics
    /// The case cannot be planned.
    #[must_use]
    pub fn bits(&self, case: &Case, ctas: u32, seed: u32) -> (Vec<u64>, Vec<u32>) {
        run::bits(case, &self.variant, &self.branches, ctas, seed)
    }
}
