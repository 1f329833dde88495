//! What an attention is asked to be: heads, dtypes, kernel family.

use std::{fmt, str::FromStr};

/// Head counts and head dimension.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Heads {
    /// Query (and output) heads; a multiple of `kv`.
    pub qo: u32,
    /// Key and value heads.
    pub kv: u32,
    /// Values per head.
    pub head_dim: u32,
}

impl Heads {
    /// Query heads per KV head.
    #[must_use]
    pub fn group(self) -> u32 {
        self.qo / self.kv
    }
    /// `1 / sqrt(head_dim)`, the default scale of logits.
    #[must_use]
    pub fn default_sm_scale(self) -> f32 {
        (1.0 / f64::from(self.head_dim).sqrt()) as f32
    }
}

/// The families of kernels.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum KernelKind {
    /// Tensor cores, tiles of query rows: FlashAttention-2 style.
    Prefill,
    /// CUDA cores, few query rows per request.
    Decode,
}

impl fmt::Display for KernelKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            KernelKind::Prefill => "prefill",
            KernelKind::Decode => "decode",
        })
    }
}

/// A kernel name that is not known.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("unknown kernel `{0}`; there are: prefill, decode")]
pub struct UnknownKernel(pub String);

impl FromStr for KernelKind {
    type Err = UnknownKernel;
    fn from_str(s: &str) -> Result<Self, UnknownKernel> {
        match s {
            "prefill" | "prefill_sm80" => Ok(KernelKind::Prefill),
            "decode" | "decode_cc" => Ok(KernelKind::Decode),
            _ => Err(UnknownKernel(s.to_owned())),
        }
    }
}
