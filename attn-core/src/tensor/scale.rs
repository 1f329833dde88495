//! Scales of stored keys and values.

use super::{TensorError, TensorRef};

/// The factor of stored elements: a number for all, one for each KV head, or both.
#[derive(Clone, Copy, Debug)]
pub struct Scale<'a> {
    /// The factor of all elements; positive and finite.
    pub all: f32,
    /// Factors by KV head: (kv_heads) f32, contiguous, positive and finite. They are in host memory for the CPU
    /// backend, and in device memory on CUDA, where the kernel reads them: new scales need neither a new plan nor a new
    /// graph capture.
    pub heads: Option<TensorRef<'a>>,
}

/// Scales of a KV cache: a stored element `x` of k stands for `x * scales.k`, one of v for `x * scales.v`.
///
/// `key_transform` and `value_transform` see that product in f32. A cache of 8 bits stores `x / scale`, with a scale
/// that maps the greatest magnitude near the maximum of the type; caches of other types may have scales too.
#[derive(Clone, Copy, Debug, Default)]
pub struct KvScales<'a> {
    /// Scale of keys.
    pub k: Scale<'a>,
    /// Scale of values.
    pub v: Scale<'a>,
}

impl<'a> Scale<'a> {
    /// One factor for all elements.
    #[must_use]
    pub fn of(all: f32) -> Self {
        Scale { all, heads: None }
    }

    /// One factor per KV head: (kv_heads) f32.
    #[must_use]
    pub fn per_head(heads: TensorRef<'a>) -> Self {
        Scale { all: 1.0, heads: Some(heads) }
    }

    /// Whether it is 1 for all elements.
    #[must_use]
    pub fn is_one(&self) -> bool {
        self.all == 1.0 && self.heads.is_none()
    }

    /// The scale of each KV head, read from host memory; `None` for device memory. The shape is checked already.
    pub(crate) fn on_host(&self, kv_heads: usize) -> Option<Vec<f32>> {
        match &self.heads {
            None => Some(vec![self.all; kv_heads]),
            Some(heads) => Some(heads.as_host::<f32>()?.iter().take(kv_heads).map(|head| self.all * head).collect()),
        }
    }

    /// Checks that the factors in host memory are positive and finite.
    pub(crate) fn check(&self, [all, heads]: [&'static str; 2]) -> Result<(), TensorError> {
        let check = |tensor, value: f32| {
            let sound = value > 0.0 && value.is_finite();
            if sound { Ok(()) } else { Err(TensorError::Scale { tensor, value }) }
        };
        check(all, self.all)?;
        let heads_of = |tensor: &TensorRef<'a>| tensor.as_host::<f32>().map(|x| &x[..tensor.shape()[0]]);
        let values = self.heads.as_ref().and_then(heads_of).unwrap_or_default();
        values.iter().try_for_each(|&value| check(heads, value))
    }
}

impl Default for Scale<'_> {
    /// The factor 1.
    fn default() -> Self {
        Scale::of(1.0)
    }
}

impl<'a> KvScales<'a> {
    /// One factor for all keys, and one for all values.
    #[must_use]
    pub fn of(k: f32, v: f32) -> Self {
        KvScales { k: Scale::of(k), v: Scale::of(v) }
    }

    /// One factor per KV head, (kv_heads) f32, of keys and of values.
    #[must_use]
    pub fn per_head(k: TensorRef<'a>, v: TensorRef<'a>) -> Self {
        KvScales { k: Scale::per_head(k), v: Scale::per_head(v) }
    }

    /// Whether all factors are 1.
    #[must_use]
    pub fn is_one(&self) -> bool {
        self.k.is_one() && self.v.is_one()
    }
}
