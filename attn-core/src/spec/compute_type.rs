//! The element type of prefill's matrix multiplications (MMA).

use super::{HeadDimVo, Heads, KernelKind};
use crate::dtype::{Dtype, Dtypes};
use crate::expr::Variant;
use crate::lang::{Hook, Normalizer};

/// The element type of the operands of prefill's two GEMMs: Q and K, then P and V. Sums are f32.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum ComputeType {
    /// The type of the tensors, with 8-bit elements widened to 16 bits: no operand of Q, K and V is rounded.
    #[default]
    Exact,
    /// e4m3 on both sides, at twice the rate of 16 bits. Keys and values are e4m3 in the cache; the kernel rounds
    /// queries and probabilities to it (4 bits of significand).
    ///
    /// A query row is multiplied by a power of two that brings its largest element to between 224 and 448, and is
    /// rounded to e4m3. The probability of a logit `x` is rounded as `2^(x log2(e) - m + 4)` with a whole number `m`,
    /// the row's running max rounded up, so that weights down to `2^-9` of the largest one are normal numbers. Outputs
    /// are divided by the sum of rounded probabilities; log-sum-exps have the error of rounded queries alone.
    ///
    /// Over N(0, 1) the relative error of an output is 0.053, where 0.038 is that of the cache's rounding alone; the
    /// book has a table (guide, KV caches), and what the variant `hadamard` changes for keys with outliers.
    ///
    /// Prefill kernels of Hopper (sm_90a) have this compute type, for a head dim of 128 of keys and values, q and o of
    /// bf16 or f16, keys and values of e4m3, and the softmax's own weights ([`ComputeType::check`]). An attention for
    /// another GPU is refused. Decode kernels, which are bound by memory, always compute in [`ComputeType::Exact`], and
    /// so does the CPU. A batch does not run in a mixed launch, and cascades run without shared tiles.
    E4m3,
}

/// Why a problem cannot run with the compute type asked for.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
#[allow(missing_docs)] // of fields, which the messages name
pub enum ComputeTypeError {
    /// Head dimensions.
    #[error(
        "compute type e4m3 is for a head_dim of 128 with values of their own as long; this one has {head_dim} \
         and values of {values}. Take `compute_type: exact`"
    )]
    HeadDim { head_dim: u32, values: HeadDimVo },
    /// Element types.
    #[error(
        "compute type e4m3 is for q and o of bf16 or f16 with k and v of e4m3; these are {} and {}. Take \
         `compute_type: exact`, or keep the cache in e4m3",
        .dtypes.qo, kv(*.dtypes)
    )]
    Dtypes { dtypes: Dtypes },
    /// A part of the variant.
    #[error("`{variant}` has {what}, which compute type e4m3 does not support. {way_out}")]
    Variant {
        /// The variant.
        variant: String,
        /// What it has.
        what: &'static str,
        /// What else to do.
        way_out: &'static str,
    },
    /// The mixed kernel, which cascades run in, too.
    #[error(
        "mixed launches and cascades have compute type exact alone. Take `compute_type: exact`; or leave the kernel \
         open or take `prefill`, and give a cascade as a batch without levels"
    )]
    Mixed,
}

/// The type of keys and values in messages.
fn kv(dtypes: Dtypes) -> String {
    if dtypes.format.is_some() { "a KV format".to_owned() } else { dtypes.kv.to_string() }
}

impl ComputeType {
    /// Checks that some kernel computes a problem in this type. `variant` has its stored form.
    ///
    /// # Errors
    ///
    /// See [`ComputeTypeError`]; there is none for [`ComputeType::Exact`].
    pub fn check(
        self,
        heads: Heads,
        head_dim_vo: HeadDimVo,
        dtypes: Dtypes,
        kernel: Option<KernelKind>,
        variant: &Variant,
    ) -> Result<(), ComputeTypeError> {
        if self == ComputeType::Exact {
            return Ok(());
        }
        if heads.head_dim != 128 || head_dim_vo.dim(heads) != 128 || head_dim_vo.shares_keys() {
            return Err(ComputeTypeError::HeadDim { head_dim: heads.head_dim, values: head_dim_vo });
        }
        let sixteen = matches!(dtypes.qo, Dtype::Bf16 | Dtype::F16);
        if !sixteen || dtypes.kv != Dtype::E4m3 || dtypes.format.is_some() {
            return Err(ComputeTypeError::Dtypes { dtypes });
        }
        if kernel == Some(KernelKind::Mixed) {
            return Err(ComputeTypeError::Mixed);
        }
        let rewrites = "Apply it when keys are appended (`KvStored::Transformed`), or take `compute_type: exact`";
        let exact = "Take `compute_type: exact`";
        let refused = [
            (variant.has(Hook::KeyTransform), "a `key_transform` of keys in the cache", rewrites),
            (variant.has(Hook::ValueTransform), "a `value_transform` of values in the cache", rewrites),
            (variant.has_kv_list(), "lists of keys", exact),
            (variant.normalizer() != Normalizer::Softmax, "weights of its own", exact),
        ];
        match refused.into_iter().find(|(refused, ..)| *refused) {
            Some((_, what, way_out)) => Err(ComputeTypeError::Variant { variant: variant.to_string(), what, way_out }),
            None => Ok(()),
        }
    }
}

/// A text that is not a [`ComputeType`].
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("unknown compute type `{name}`; there are: exact, e4m3")]
pub struct UnknownComputeType {
    /// The text.
    pub name: String,
}

words!(ComputeType, |name| UnknownComputeType { name }, UnknownComputeType {
    Exact => "exact",
    E4m3 => "e4m3",
});
