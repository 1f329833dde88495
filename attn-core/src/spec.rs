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
    /// Elements of a query or key of a head; of a value too, unless [`ValueRows`] says otherwise.
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

/// The template of prefill: the fastest that runs a kernel, unless another is asked for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum PrefillTemplate {
    /// `mma.sync`, which every GPU from sm_80 on runs.
    Mma,
    /// Warpgroups that multiply (`wgmma`) beside one that copies: Hopper alone, rows of up to 256 elements, no lists of keys, no values that are read where keys are, and
    /// not in mixed launches. Whatever it does not run, the other one does.
    #[default]
    Warpgroups,
}

impl fmt::Display for PrefillTemplate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            PrefillTemplate::Mma => "mma",
            PrefillTemplate::Warpgroups => "warpgroups",
        })
    }
}

/// Not the name of a [`PrefillTemplate`].
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("`{name}` is no template of prefill; there are: mma, warpgroups")]
pub struct UnknownTemplate {
    /// What was asked.
    pub name: String,
}

impl FromStr for PrefillTemplate {
    type Err = UnknownTemplate;

    fn from_str(name: &str) -> Result<Self, UnknownTemplate> {
        [PrefillTemplate::Mma, PrefillTemplate::Warpgroups]
            .into_iter()
            .find(|template| template.to_string() == name)
            .ok_or_else(|| UnknownTemplate { name: name.to_owned() })
    }
}

/// How wide the rows of values are, and where they lie. Queries and keys have [`Heads::head_dim`] elements a row.
///
/// Outputs, `value_transform` and `output_transform` have rows of [`ValueRows::dim`] elements.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum ValueRows {
    /// As wide as keys, in a tensor of their own.
    #[default]
    Same,
    /// Of so many elements, in a tensor of their own.
    Dim(u32),
    /// The first so many elements of the rows of keys, as they are stored: one tensor is both, see [`Kv::latent`](crate::tensor::Kv::latent). In
    /// multi-head latent attention (DeepSeek's, over the compressed cache) keys have 576 elements, of which 512 are the values.
    OfKeys(u32),
}

/// Heads, widths of values, or a scale of logits, that no attention has.
#[derive(Clone, Copy, Debug, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum HeadsError {
    /// A count of 0, or past what an index counts.
    #[error("{what} = {value}; it must be 1 to 65535")]
    Count {
        /// `qo_heads`, `kv_heads`, `head_dim` or `value_dim`.
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
    /// Values that reach past the keys whose first elements they are.
    #[error("values are the first {values} elements of keys that have {head_dim}")]
    ValuesOfKeys {
        /// Elements of a value.
        values: u32,
        /// Elements of a key.
        head_dim: u32,
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
            value_dim: Some(self.head_dim.into()),
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

impl ValueRows {
    /// Elements of a value, and of an output.
    #[must_use]
    pub fn dim(self, heads: Heads) -> u32 {
        match self {
            ValueRows::Same => heads.head_dim,
            ValueRows::Dim(dim) | ValueRows::OfKeys(dim) => dim,
        }
    }
    /// Whether the tensor of keys holds the values too.
    #[must_use]
    pub fn are_of_keys(self) -> bool {
        matches!(self, ValueRows::OfKeys(_))
    }
    /// Checks the width: 1 to 65535, and within the keys where it is of them. Which a kernel exists for is the backend's matter.
    ///
    /// # Errors
    ///
    /// See [`HeadsError`].
    pub fn check(self, heads: Heads) -> Result<(), HeadsError> {
        let (values, head_dim) = (self.dim(heads), heads.head_dim);
        if values == 0 || values > 65535 {
            return Err(HeadsError::Count { what: "value_dim", value: values });
        }
        if self.are_of_keys() && values > head_dim {
            return Err(HeadsError::ValuesOfKeys { values, head_dim });
        }
        Ok(())
    }
    /// The sizes that shapes of parameters are written in, with the width of values.
    #[must_use]
    pub fn dims(self, heads: Heads, dims: Dims) -> Dims {
        Dims { value_dim: Some(self.dim(heads).into()), ..dims }
    }
}

impl fmt::Display for ValueRows {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ValueRows::Same => f.write_str("same"),
            ValueRows::Dim(dim) => write!(f, "{dim}"),
            ValueRows::OfKeys(dim) => write!(f, "keys:{dim}"),
        }
    }
}

/// A way to write widths of values that is not known.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "values `{0}` are not known; write: same, a number of elements, or keys:NUMBER for the first elements of the keys"
)]
pub struct UnknownValues(pub String);

impl FromStr for ValueRows {
    type Err = UnknownValues;
    fn from_str(s: &str) -> Result<Self, UnknownValues> {
        let number = |text: &str| text.parse().map_err(|_| UnknownValues(s.to_owned()));
        match s.strip_prefix("keys:") {
            Some(dim) => Ok(ValueRows::OfKeys(number(dim)?)),
            None if s == "same" => Ok(ValueRows::Same),
            None => Ok(ValueRows::Dim(number(s)?)),
        }
    }
}

/// The families of kernels.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum KernelKind {
    /// Tensor cores, tiles of query rows: FlashAttention-2 style.
    Prefill,
    /// Tensor cores, few query rows per request against many keys.
    Decode,
    /// Both in one launch: requests of few rows as in decode, those of many as in prefill, and rows of several requests against keys that they
    /// share.
    Mixed,
}

impl fmt::Display for KernelKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            KernelKind::Prefill => "prefill",
            KernelKind::Decode => "decode",
            KernelKind::Mixed => "mixed",
        })
    }
}

/// A kernel name that is not known.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("unknown kernel `{0}`; there are: prefill, decode, mixed")]
pub struct UnknownKernel(pub String);

impl FromStr for KernelKind {
    type Err = UnknownKernel;
    fn from_str(s: &str) -> Result<Self, UnknownKernel> {
        match s {
            "prefill" => Ok(KernelKind::Prefill),
            "decode" => Ok(KernelKind::Decode),
            "mixed" => Ok(KernelKind::Mixed),
            _ => Err(UnknownKernel(s.to_owned())),
        }
    }
}
