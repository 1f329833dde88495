//! What a machine may lack.

use std::fmt;

/// What a test may need.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Need {
    /// The compiler NVRTC.
    Nvrtc,
    /// The compiler nvcc, of a CUDA toolkit.
    Nvcc,
    /// A GPU with its driver.
    Gpu,
    /// More than one GPU.
    Gpus,
    /// The collectives of GPUs.
    Nccl,
    /// The instruction counter of valgrind.
    Valgrind,
    /// A C++ compiler for the host.
    Cxx,
    /// The weights of a model.
    Model,
    /// Chromium with its WebDriver.
    Browser,
    /// The rights of the superuser.
    Root,
    /// Python with pip and its packages.
    Pip,
    /// Torch and Transformers, in that Python.
    Torch,
}

impl Need {
    /// All of them.
    pub const ALL: [Need; 12] = [
        Need::Nvrtc,
        Need::Nvcc,
        Need::Gpu,
        Need::Gpus,
        Need::Nccl,
        Need::Valgrind,
        Need::Cxx,
        Need::Model,
        Need::Browser,
        Need::Root,
        Need::Pip,
        Need::Torch,
    ];

    /// The word in `ATTN_TEST_REQUIRE`.
    pub fn word(self) -> &'static str {
        match self {
            Need::Nvrtc => "nvrtc",
            Need::Nvcc => "nvcc",
            Need::Gpu => "gpu",
            Need::Gpus => "gpus",
            Need::Nccl => "nccl",
            Need::Valgrind => "valgrind",
            Need::Cxx => "cxx",
            Need::Model => "model",
            Need::Browser => "browser",
            Need::Root => "root",
            Need::Pip => "pip",
            Need::Torch => "torch",
        }
    }
}

impl fmt::Display for Need {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Need::Nvrtc => "NVRTC",
            Need::Nvcc => "nvcc",
            Need::Gpu => "a GPU",
            Need::Gpus => "two GPUs",
            Need::Nccl => "NCCL",
            Need::Valgrind => "valgrind",
            Need::Cxx => "a C++ compiler",
            Need::Model => "the model's file",
            Need::Browser => "a browser",
            Need::Root => "the superuser",
            Need::Pip => "Python with pip",
            Need::Torch => "torch and transformers",
        })
    }
}
