//! Problems without a kernel.

use attn_core::{
    dtype::{Dtype, Dtypes},
    spec::KernelKind,
};

use crate::compile::Arch;

/// A problem that no kernel supports.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum KernelTraitsError {
    /// Unsupported head dimensions.
    #[error(
        "no {kind} kernel for head_dim = {head_dim} and values of {value_dim}; there are: multiples of 16 up to 256, \
         and 512 (of keys also 576; values of 512 where keys are as long). Pad the heads with zeros, \
         or use `Engine::cpu()`"
    )]
    HeadDim {
        /// Kernel family.
        kind: KernelKind,
        /// Elements of a query and a key.
        head_dim: u32,
        /// Elements of a value.
        value_dim: u32,
    },
    /// Head dimensions whose smallest tiles do not fit shared memory.
    #[error(
        "no {kind} kernel for head_dim = {head_dim} and values of {value_dim} on {arch}: the smallest tiles take \
         {bytes} bytes of shared memory, of which a CTA has {available} there. Use a GPU with more, or `Engine::cpu()`"
    )]
    SharedMemory {
        /// Kernel family.
        kind: KernelKind,
        /// Elements of a key.
        head_dim: u32,
        /// Elements of a value.
        value_dim: u32,
        /// The architecture.
        arch: Arch,
        /// Bytes that the smallest tiles take.
        bytes: u32,
        /// Bytes that a CTA may use.
        available: u32,
    },
    /// Unsupported element types.
    #[error(
        "no {kind} kernel for q and o of {} with k and v of {}; there are: f16 and bf16, the same for all, or e4m3 and \
         e5m2 for k and v. Convert, or use `Engine::cpu()`",
        .dtypes.qo, .dtypes.kv
    )]
    Dtypes {
        /// Kernel family.
        kind: KernelKind,
        /// The element types asked for.
        dtypes: Dtypes,
    },
    /// A mixed kernel that does not fit shared memory.
    #[error(
        "no mixed kernel for head_dim = {head_dim} with k and v of {kv} on {arch}: its shared memory is too small. Run \
         requests of few queries and of many in batches of their own, and keys that are shared as keys of each request"
    )]
    Mixed {
        /// Elements of a query and a key.
        head_dim: u32,
        /// The element type of keys.
        kv: Dtype,
        /// The architecture.
        arch: Arch,
    },
}
