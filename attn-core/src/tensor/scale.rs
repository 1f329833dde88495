//! What stored keys and values are multiplied by.

use super::{TensorError, TensorRef};

/// What a stored element is multiplied by where it is read: a number for all elements, one for each KV head, or both.
#[derive(Clone, Copy, Debug)]
pub struct Scale<'a> {
    /// Of all elements; positive and finite.
    pub all: f32,
    /// Of the elements of each KV head, beside: (kv_heads) f32, contiguous, positive and finite. In host memory on the CPU, in device
    /// memory on CUDA, where a kernel reads it: new scales need no new plan, and no new capture of a graph.
    pub heads: Option<TensorRef<'a>>,
}

/// Scales of a cache: a stored element `x` of k stands for `x * scales.k`, one of v for `x * scales.v`.
///
/// That product, in f32, is what `key_transform` and `value_transform` see, and what counts where a variant has none. A cache of 8 bits
/// holds `x / scale` of what the model made, with the scale such that the greatest element ends near the greatest of the type; a
/// cache of another type may have scales too.
#[derive(Clone, Copy, Debug, Default)]
pub struct KvScales<'a> {
    /// Of keys.
    pub k: Scale<'a>,
    /// Of values.
    pub v: Scale<'a>,
}

impl<'a> Scale<'a> {
    /// A number for all elements.
    #[must_use]
    pub fn of(all: f32) -> Self {
        Scale { all, heads: None }
    }

    /// A number for each KV head: (kv_heads) f32.
    #[must_use]
    pub fn per_head(heads: TensorRef<'a>) -> Self {
        Scale { all: 1.0, heads: Some(heads) }
    }

    /// Whether elements are as they are stored.
    #[must_use]
    pub fn is_one(&self) -> bool {
        self.all == 1.0 && self.heads.is_none()
    }

    /// The scale of each KV head, from host memory; `None` for device memory. The shape is checked already.
    pub(crate) fn on_host(&self, kv_heads: usize) -> Option<Vec<f32>> {
        match &self.heads {
            None => Some(vec![self.all; kv_heads]),
            Some(heads) => Some(heads.as_host::<f32>()?.iter().take(kv_heads).map(|head| self.all * head).collect()),
        }
    }

    /// The first value that is no scale, of those that can be seen from the host.
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
    /// 1.
    fn default() -> Self {
        Scale::of(1.0)
    }
}

impl<'a> KvScales<'a> {
    /// A number for all keys, and one for all values.
    #[must_use]
    pub fn of(k: f32, v: f32) -> Self {
        KvScales { k: Scale::of(k), v: Scale::of(v) }
    }

    /// A number for each KV head: (kv_heads) f32, of keys and of values.
    #[must_use]
    pub fn per_head(k: TensorRef<'a>, v: TensorRef<'a>) -> Self {
        KvScales { k: Scale::per_head(k), v: Scale::per_head(v) }
    }

    /// Whether keys and values are as they are stored.
    #[must_use]
    pub fn is_one(&self) -> bool {
        self.k.is_one() && self.v.is_one()
    }
}
