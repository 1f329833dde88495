//! The element type in which prefill multiplies.

use super::{HeadDimVo, Heads, KernelKind};
use crate::dtype::{Dtype, Dtypes};
use crate::expr::Variant;
use crate::lang::{Hook, Normalizer};

/// The elements of which prefill makes the products of queries and keys, and of probabilities and values.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Products {
    /// Those of the tensors, with 8-bit ones widened to 16 bits: no product is rounded.
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
    /// Prefill kernels of Hopper (sm_90a) have such products, for a head dim of 128 of keys and values, q and o of bf16
    /// or f16, keys and values of e4m3, and the softmax's own weights ([`Products::check`]). An attention for another
    /// GPU is refused. Decode kernels, which are bound by memory, compute exact products, and so does the CPU. A batch
    /// does not run in a mixed launch, and cascades run without shared tiles.
    E4m3,
}

/// Problems without 8-bit products.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
#[allow(missing_docs)] // of fields, which the messages name
pub enum ProductsError {
    /// Head dimensions.
    #[error(
        "there are products of e4m3 for a head_dim of 128 with values of their own as long; this one has {head_dim} \
         and values of {values}. Take `products: exact`"
    )]
    HeadDim { head_dim: u32, values: HeadDimVo },
    /// Element types.
    #[error(
        "products of e4m3 are for q and o of bf16 or f16 with k and v of e4m3; these are {} and {}. Take `products: \
         exact`, or keep the cache in e4m3",
        .dtypes.qo, kv(*.dtypes)
    )]
    Dtypes { dtypes: Dtypes },
    /// A part of the variant.
    #[error("`{variant}` has {what}, which products of e4m3 do not support. {way_out}")]
    Variant { variant: String, what: &'static str, way_out: &'static str },
    /// The mixed kernel, which cascades run in, too.
    #[error(
        "mixed launches and cascades have exact products alone. Take `products: exact`; or leave the kernel open or \
         take `prefill`, and give a cascade as a batch without levels"
    )]
    Mixed,
}

/// The type of keys and values in messages.
fn kv(dtypes: Dtypes) -> String {
    if dtypes.format.is_some() { "a KV format".to_owned() } else { dtypes.kv.to_string() }
}

impl Products {
    /// Checks that some kernel makes such products of a problem. `variant` has its stored form.
    ///
    /// # Errors
    ///
    /// See [`ProductsError`]; there is none for exact products.
    pub fn check(
        self,
        heads: Heads,
        head_dim_vo: HeadDimVo,
        dtypes: Dtypes,
        kernel: Option<KernelKind>,
        variant: &Variant,
    ) -> Result<(), ProductsError> {
        if self == Products::Exact {
            return Ok(());
        }
        if heads.head_dim != 128 || head_dim_vo.dim(heads) != 128 || head_dim_vo.shares_keys() {
            return Err(ProductsError::HeadDim { head_dim: heads.head_dim, values: head_dim_vo });
        }
        let sixteen = matches!(dtypes.qo, Dtype::Bf16 | Dtype::F16);
        if !sixteen || dtypes.kv != Dtype::E4m3 || dtypes.format.is_some() {
            return Err(ProductsError::Dtypes { dtypes });
        }
        if kernel == Some(KernelKind::Mixed) {
            return Err(ProductsError::Mixed);
        }
        let rewrites = "Apply it when keys are appended (`KvStored::Transformed`), or take `products: exact`";
        let exact = "Take `products: exact`";
        let refused = [
            (variant.has(Hook::KeyTransform), "a `key_transform` of keys in the cache", rewrites),
            (variant.has(Hook::ValueTransform), "a `value_transform` of values in the cache", rewrites),
            (variant.has_kv_list(), "lists of keys", exact),
            (variant.normalizer() != Normalizer::Softmax, "weights of its own", exact),
        ];
        match refused.into_iter().find(|(refused, ..)| *refused) {
            Some((_, what, way_out)) => Err(ProductsError::Variant { variant: variant.to_string(), what, way_out }),
            None => Ok(()),
        }
    }
}

/// A text that is not a [`Products`].
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("unknown products `{name}`; there are: exact, e4m3")]
pub struct UnknownProducts {
    /// The text.
    pub name: String,
}

words!(Products, |name| UnknownProducts { name }, UnknownProducts {
    Exact => "exact",
    E4m3 => "e4m3",
});
