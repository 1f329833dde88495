//! What an attention is asked to be: heads, dtypes, kernel family.

use std::{fmt, str::FromStr};

use crate::lang::Dims;

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

/// What the keys and values in memory are, for a variant that rewrites them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum KvStored {
    /// As the model made them: `key_transform` and `value_transform` run where a key or value is read.
    #[default]
    Raw,
    /// What `key_transform` and `value_transform` give, rounded to the type of the cache: whoever appended a key or value had applied them
    /// (most engines rotate keys so). They are left out then, and so is the pass over keys and values of a prefill, with its workspace;
    /// queries are transformed as ever, and every other hook runs. A variant without these hooks is the same either way.
    Transformed,
}

/// Heads, or a scale of logits, that no attention has.
#[derive(Clone, Copy, Debug, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum HeadsError {
    /// A count of 0, or past what an index counts.
    #[error("{what} = {value}; it must be 1 to 65535")]
    Count {
        /// `qo_heads`, `kv_heads` or `head_dim`.
        what: &'static str,
        /// Its value.
        value: u32,
    },
    /// Query heads that do not share KV heads evenly.
    #[error("qo_heads = {qo} is not a multiple of kv_heads = {kv}")]
    Group {
        /// Query heads.
        qo: u32,
        /// KV heads.
        kv: u32,
    },
    /// A scale that no softmax has.
    #[error("sm_scale = {value}; it must be positive and finite (1 / sqrt(head_dim) unless given)")]
    SmScale {
        /// Its value.
        value: f32,
    },
}

impl Heads {
    /// Checks the counts: each 1 to 65535, and `qo` a multiple of `kv`. Which of them a kernel exists for is the
    /// backend's matter.
    ///
    /// # Errors
    ///
    /// See [`HeadsError`].
    pub fn check(self) -> Result<(), HeadsError> {
        for (what, value) in [("qo_heads", self.qo), ("kv_heads", self.kv), ("head_dim", self.head_dim)] {
            if value == 0 || value > 65535 {
                return Err(HeadsError::Count { what, value });
            }
        }
        if !self.qo.is_multiple_of(self.kv) {
            return Err(HeadsError::Group { qo: self.qo, kv: self.kv });
        }
        Ok(())
    }
    /// Query heads per KV head (0 when there are no KV heads).
    #[must_use]
    pub fn group(self) -> u32 {
        self.qo.checked_div(self.kv).unwrap_or(0)
    }
    /// The sizes that shapes of parameters are written in, as far as heads say them; [`Layout::dims`](crate::batch::Layout::dims) says all.
    #[must_use]
    pub fn dims(self) -> Dims {
        Dims {
            qo_heads: Some(self.qo.into()),
            kv_heads: Some(self.kv.into()),
            head_dim: Some(self.head_dim.into()),
            ..Dims::default()
        }
    }
    /// The scale of logits: as given, or [`Heads::default_sm_scale`].
    ///
    /// # Errors
    ///
    /// One that is not positive and finite: kernels compare logits before they scale them.
    pub fn sm_scale(self, given: Option<f32>) -> Result<f32, HeadsError> {
        match given {
            None => Ok(self.default_sm_scale()),
            Some(value) if value > 0.0 && value.is_finite() => Ok(value),
            Some(value) => Err(HeadsError::SmScale { value }),
        }
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
    /// Tensor cores, few query rows per request against many keys.
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
            "prefill" => Ok(KernelKind::Prefill),
            "decode" => Ok(KernelKind::Decode),
            _ => Err(UnknownKernel(s.to_owned())),
        }
    }
}
