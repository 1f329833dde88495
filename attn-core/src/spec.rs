//! The specification of an attention: head counts, head dimensions, backends, the kind of kernel.

/// The words of an enum: how it is written, and read, and the error for any other text.
macro_rules! words {
    ($ty:ident, $unknown:expr, $error:ty { $($variant:ident => $word:literal,)* }) => {
        impl std::fmt::Display for $ty {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.write_str(match self {
                    $($ty::$variant => $word,)*
                })
            }
        }
        impl std::str::FromStr for $ty {
            type Err = $error;
            fn from_str(text: &str) -> Result<Self, $error> {
                let unknown: fn(String) -> $error = $unknown;
                match text {
                    $($word => Ok($ty::$variant),)*
                    _ => Err(unknown(text.to_owned())),
                }
            }
        }
    };
}

mod compute_type;
mod options;
mod skip_softmax;

use std::fmt;
use std::str::FromStr;

use crate::lang::Dims;

pub use compute_type::{ComputeType, ComputeTypeError, UnknownComputeType};
pub use options::AttentionOptions;
pub use skip_softmax::{SkipSoftmaxError, skipped_share};

/// Head counts and head dimension.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Heads {
    /// Query (and output) heads; a multiple of `kv`.
    pub qo: u32,
    /// Key and value heads.
    pub kv: u32,
    /// Elements of a query or key of one head (`head_dim_qk`); of a value too, unless [`HeadDimVo`] says otherwise.
    pub head_dim: u32,
}

/// Whether keys and values are stored before or after `key_transform` and `value_transform`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum KvStored {
    /// Before: the kernel applies `key_transform` and `value_transform` when it loads a key or value.
    #[default]
    Raw,
    /// After, rounded to the type of the cache: the append op applied the hooks. Most engines store keys after RoPE.
    /// The kernel then skips both hooks, and prefill needs no K/V preprocessing kernel and no workspace for it. Queries
    /// are still transformed, and every other hook runs. Variants without these hooks behave the same with either
    /// value.
    Transformed,
}

/// The prefill kernel. The default takes the fastest one that supports a problem.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum PrefillBackend {
    /// `mma.sync` and `cp.async`, as in FlashAttention-2; runs on every GPU from sm_80 on.
    Sm80,
    /// TMA and `wgmma` in a warp-specialised kernel, as in FlashAttention-3; Hopper (sm_90a) only.
    ///
    /// It does not support head dimensions above 256, lists of keys and [`HeadDimVo::SharedWithKeys`]; mixed launches
    /// neither head dimensions above 128, nor KV formats, nor cascades, nor more KV heads than two thirds of the
    /// multiprocessors. [`PrefillBackend::Sm80`] runs those, and every problem on other GPUs.
    ///
    /// Without [`AttentionOptions::kernel`], a batch whose requests have at most 128 keys runs
    /// [`PrefillBackend::Sm90Resident`] where that was measured to be faster: 16-bit keys and values of 128 elements,
    /// and groups of at most 64 query heads.
    #[default]
    Sm90,
    /// [`PrefillBackend::Sm90`] with the keys and values of a request in shared memory while its query tiles pass, for
    /// batches whose requests have at most 128 keys, of 128 elements each. Other batches, unions, plans with a
    /// capacity, batch invariance and [`ComputeType::E4m3`] run [`PrefillBackend::Sm90`]. Both give the same bits, but
    /// for last bits under a soft cap.
    Sm90Resident,
    /// Products in f32 on CUDA cores, for f32 tensors, for GPUs before sm_80, and for head dimensions that tensor cores
    /// have no kernel for. The other backends fall back to it for these.
    CudaCores,
}

/// The decode kernel. By default the fastest one that supports a problem runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum DecodeBackend {
    /// `mma.sync` with swapped operands, from sm_80 on. Elements have 16 bits, and those of keys and values also eight.
    TensorCores,
    /// Products in f32 on CUDA cores, on every GPU. It takes every element type and head dimensions that are multiples
    /// of 8.
    CudaCores,
}

/// A text that is not a [`DecodeBackend`].
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("unknown decode backend `{name}`; there are: tensor-cores, cuda-cores")]
pub struct UnknownDecodeBackend {
    /// The text.
    pub name: String,
}

words!(DecodeBackend, |name| UnknownDecodeBackend { name }, UnknownDecodeBackend {
    TensorCores => "tensor-cores",
    CudaCores => "cuda-cores",
});

/// A text that is not a [`PrefillBackend`].
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("unknown prefill backend `{name}`; there are: sm80, sm90, sm90-resident, cuda-cores")]
pub struct UnknownPrefillBackend {
    /// The text.
    pub name: String,
}

words!(PrefillBackend, |name| UnknownPrefillBackend { name }, UnknownPrefillBackend {
    Sm80 => "sm80",
    Sm90 => "sm90",
    Sm90Resident => "sm90-resident",
    CudaCores => "cuda-cores",
});

/// The head dimension of values and outputs, and the tensor that holds the values. Queries and keys have
/// [`Heads::head_dim`] elements.
///
/// `value_transform` and `output_transform` see rows of [`HeadDimVo::dim`] elements.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum HeadDimVo {
    /// The head dimension of keys; values have a tensor of their own.
    #[default]
    Same,
    /// This many elements; values have a tensor of their own.
    Dim(u32),
    /// This many elements, the first ones of each stored key: one tensor holds both, see
    /// [`Kv::latent`](crate::tensor::Kv::latent). Multi-head latent attention (DeepSeek-V2, over the compressed cache)
    /// has keys of 576 elements, of which the first 512 are the value. Where keys are stored transformed
    /// ([`KvStored::Transformed`]), these are elements of transformed keys, and a variant that transforms values is
    /// refused.
    SharedWithKeys(u32),
}

/// Head counts, head dimensions or a scale of logits that no attention has.
#[derive(Clone, Copy, Debug, PartialEq, thiserror::Error)]
#[non_exhaustive]
#[allow(missing_docs)] // of fields, which the messages name
pub enum HeadsError {
    /// A count of 0, or above 65535.
    #[error("{what} = {value}; it must be 1 to 65535")]
    Count {
        /// `qo_heads`, `kv_heads`, `head_dim` or `value_dim`.
        what: &'static str,
        value: u32,
    },
    /// The query heads are not a multiple of the KV heads.
    #[error("qo_heads = {qo} is not a multiple of kv_heads = {kv}")]
    Group { qo: u32, kv: u32 },
    /// Values that share memory with keys have more elements than the keys.
    #[error("values are the first {values} elements of keys that have {head_dim}")]
    ValuesExceedKeys { values: u32, head_dim: u32 },
    /// Values that are the first elements of stored keys, and a hook that would transform them alone.
    #[error(
        "`{variant}` transforms values, and values that are the first elements of keys are not stored transformed; \
         store keys and values raw, or give values a tensor of their own"
    )]
    TransformedInKeys { variant: &'static str },
    /// The softmax scale is not positive and finite.
    #[error("sm_scale = {value}; it must be positive and finite (1 / sqrt(head_dim) unless given)")]
    SmScale { value: f32 },
}

impl Heads {
    /// Checks the counts: each 1 to 65535, and `qo` a multiple of `kv`. Each backend checks which of them it has a
    /// kernel for.
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
    /// The dimensions that shapes of parameter tensors are written in, as far as heads determine them;
    /// [`Layout::dims`](crate::batch::Layout::dims) adds those of the batch.
    #[must_use]
    pub fn dims(self) -> Dims {
        Dims {
            qo_heads: Some(self.qo.into()),
            kv_heads: Some(self.kv.into()),
            head_dim: Some(self.head_dim.into()),
            value_dim: Some(self.head_dim.into()),
            ..Dims::default()
        }
    }
    /// The scale of logits: `given`, or [`Heads::default_sm_scale`].
    ///
    /// # Errors
    ///
    /// [`HeadsError::SmScale`] unless it is positive and finite: kernels compare logits before they scale them.
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

impl HeadDimVo {
    /// Elements of a value and of an output of one head.
    #[must_use]
    pub fn dim(self, heads: Heads) -> u32 {
        match self {
            HeadDimVo::Same => heads.head_dim,
            HeadDimVo::Dim(dim) | HeadDimVo::SharedWithKeys(dim) => dim,
        }
    }
    /// Whether the tensor of keys also holds the values.
    #[must_use]
    pub fn shares_keys(self) -> bool {
        matches!(self, HeadDimVo::SharedWithKeys(_))
    }
    /// Checks the dimension: 1 to 65535, and at most that of keys where values share memory with them. Each backend
    /// checks which of them it has a kernel for.
    ///
    /// # Errors
    ///
    /// See [`HeadsError`].
    pub fn check(self, heads: Heads) -> Result<(), HeadsError> {
        let (values, head_dim) = (self.dim(heads), heads.head_dim);
        if values == 0 || values > 65535 {
            return Err(HeadsError::Count { what: "value_dim", value: values });
        }
        if self.shares_keys() && values > head_dim {
            return Err(HeadsError::ValuesExceedKeys { values, head_dim });
        }
        Ok(())
    }
    /// `dims` with `value_dim` set.
    #[must_use]
    pub fn dims(self, heads: Heads, dims: Dims) -> Dims {
        Dims { value_dim: Some(self.dim(heads).into()), ..dims }
    }
}

impl fmt::Display for HeadDimVo {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            HeadDimVo::Same => f.write_str("same"),
            HeadDimVo::Dim(dim) => write!(f, "{dim}"),
            HeadDimVo::SharedWithKeys(dim) => write!(f, "keys:{dim}"),
        }
    }
}

/// A text that is not a [`HeadDimVo`].
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "unknown head_dim_vo `{0}`; write: same, a number of elements, or keys:NUMBER for the first elements of the keys"
)]
pub struct UnknownHeadDimVo(pub String);

impl FromStr for HeadDimVo {
    type Err = UnknownHeadDimVo;
    fn from_str(s: &str) -> Result<Self, UnknownHeadDimVo> {
        let number = |text: &str| text.parse().map_err(|_| UnknownHeadDimVo(s.to_owned()));
        match s.strip_prefix("keys:") {
            Some(dim) => Ok(HeadDimVo::SharedWithKeys(number(dim)?)),
            None if s == "same" => Ok(HeadDimVo::Same),
            None => Ok(HeadDimVo::Dim(number(s)?)),
        }
    }
}

/// The kinds of kernel.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum KernelKind {
    /// Tiles of many query rows of one request, as in FlashAttention-2 and -3 ([`PrefillBackend`]).
    Prefill,
    /// Few query rows of a request against many keys, with split-KV ([`DecodeBackend`]).
    Decode,
    /// Both in one launch: requests with few query rows run as in decode, the others as in prefill. In a cascade, rows
    /// of several requests share a tile against the keys that they have in common.
    Mixed,
}

/// A text that is not a [`KernelKind`].
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("unknown kernel `{0}`; there are: prefill, decode, mixed")]
pub struct UnknownKernel(pub String);

words!(KernelKind, UnknownKernel, UnknownKernel {
    Prefill => "prefill",
    Decode => "decode",
    Mixed => "mixed",
});
