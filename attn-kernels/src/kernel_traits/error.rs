//! Problems without a kernel.

use attn_core::dtype::{Dtype, Dtypes};
use attn_core::spec::{KernelKind, PrefillBackend};

use crate::compile::Arch;

/// A problem that no kernel supports.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
#[allow(missing_docs)] // of fields, which the messages name
pub enum KernelTraitsError {
    /// Unsupported head dimensions.
    #[error(
        "no {kind} kernel{} for head_dim = {head_dim} and values of {value_dim}; there are: {}. {}, or use \
         `Engine::cpu()`",
        on_tensor_cores(*.on_cuda_cores),
        if *.on_cuda_cores {
            "multiples of 16 up to 256, and 512 (of keys also 576; values of 512 where keys are as long)"
        } else {
            "multiples of 8 up to 512 (of keys also 576)"
        },
        way_out(*.on_cuda_cores, "Pad the heads with zeros")
    )]
    HeadDim { kind: KernelKind, head_dim: u32, value_dim: u32, on_cuda_cores: bool },
    /// Head dimensions whose smallest tiles do not fit shared memory.
    #[error(
        "no {kind} kernel for head_dim = {head_dim} and values of {value_dim} on {arch}: the smallest tiles take \
         {bytes} bytes of shared memory, of which a CTA has {available} there. Use a GPU with more, or `Engine::cpu()`"
    )]
    SharedMemory { kind: KernelKind, head_dim: u32, value_dim: u32, arch: Arch, bytes: u32, available: u32 },
    /// Unsupported element types.
    #[error(
        "no {kind} kernel{} for q and o of {} with k and v of {}; there are: {}, the same for all, or e4m3 and e5m2 \
         for k and v. {}, or use `Engine::cpu()`",
        on_tensor_cores(*.on_cuda_cores), .dtypes.qo, .dtypes.kv,
        if *.on_cuda_cores { "f16 and bf16" } else { "f16, bf16 and f32" }, way_out(*.on_cuda_cores, "Convert")
    )]
    Dtypes { kind: KernelKind, dtypes: Dtypes, on_cuda_cores: bool },
    /// Rows of a KV format, of `keys` or `values`, that kernels do not copy.
    #[error(
        "kernels read rows of KV formats with codes of a multiple of 8 bytes and side data of a multiple of 4, both up \
         to 65536; the format of {of} has {codes} bytes and {side}. Pad them in `code_bytes` or `side_bytes`, or use \
         `Engine::cpu()`"
    )]
    Row { of: &'static str, codes: u32, side: u32 },
    /// A kernel on tensor cores for an architecture without their MMA shapes.
    #[error("no {kind} kernel on tensor cores for {arch}, which is older than sm_80. Take the backend `cuda-cores`")]
    NoMma { kind: KernelKind, arch: Arch },
    /// A compute type that no kernel has.
    #[error(
        "no {kind} kernel of {prefill} for {arch} has compute type e4m3 for head_dim = {head_dim} with q and o of {} \
         and k and v of {}. There is the prefill kernel of sm90 for sm_90a: a head_dim of 128, q and o of bf16 or f16 \
         over k and v of e4m3, without hooks of keys and values. Take `compute_type: exact`",
        .dtypes.qo, .dtypes.kv
    )]
    ComputeType { kind: KernelKind, prefill: PrefillBackend, head_dim: u32, dtypes: Dtypes, arch: Arch },
    /// A mixed kernel that does not fit shared memory.
    #[error(
        "no mixed kernel for head_dim = {head_dim} with k and v of {kv} on {arch}: its shared memory is too small. Run \
         requests of few queries and of many in batches of their own, and keys that are shared as keys of each request"
    )]
    Mixed { head_dim: u32, kv: Dtype, arch: Arch },
}

/// Names the backend of an error, where the other one has a kernel.
fn on_tensor_cores(on_cuda_cores: bool) -> &'static str {
    if on_cuda_cores { " on tensor cores" } else { "" }
}

fn way_out(on_cuda_cores: bool, else_do: &'static str) -> &'static str {
    if on_cuda_cores { "Take the backend `cuda-cores`" } else { else_do }
}
