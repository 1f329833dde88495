//! A variant bound to heads, element types and a device.

use std::sync::Arc;

use attn::{AttentionOptions, Dtype, Dtypes, Heads, Variant, ops::KvTransform};
use candle_core::Result;

use crate::Engine;
use crate::error::{IntoCandle, refuse};

/// What becomes a variant: an expression over the registered ones, such as `causal + soft_cap(cap=30)`, or a
/// [`Variant`] made of Rust values (`compose!`, `MyVariant { .. }.into()`).
pub trait IntoVariant {
    /// The variant.
    ///
    /// # Errors
    ///
    /// An expression that is not one.
    fn into_variant(self) -> Result<Variant>;
}

impl IntoVariant for &str {
    fn into_variant(self) -> Result<Variant> {
        Variant::parse(self).candle()
    }
}

impl IntoVariant for Variant {
    fn into_variant(self) -> Result<Variant> {
        Ok(self)
    }
}

impl IntoVariant for &Variant {
    fn into_variant(self) -> Result<Variant> {
        Ok(self.clone())
    }
}

/// A variant bound to heads, element types and an engine. It makes plans. Cheap to clone.
#[derive(Clone, Debug)]
pub struct Attention {
    pub(crate) engine: Engine,
    pub(crate) inner: attn::Attention,
    pub(crate) dtypes: Dtypes,
    /// Elements of a value and of an output.
    pub(crate) value_dim: usize,
    /// Where keys are stored transformed: what appends apply.
    pub(crate) transform: Option<Arc<KvTransform>>,
}

impl Engine {
    /// Binds a variant to heads and element types.
    ///
    /// # Errors
    ///
    /// An expression that is not one; parameters, heads or types that are not allowed. On CUDA also heads, types or
    /// hooks that no kernel supports.
    pub fn attention(&self, variant: impl IntoVariant, heads: Heads, dtypes: Dtypes) -> Result<Attention> {
        self.attention_with(variant, heads, dtypes, AttentionOptions::default())
    }

    /// Binds a variant with options. Where [`AttentionOptions::stored`] says that the cache holds transformed keys,
    /// [`Attention::append`] transforms them.
    ///
    /// # Errors
    ///
    /// The errors of [`Engine::attention`].
    pub fn attention_with(
        &self,
        variant: impl IntoVariant,
        heads: Heads,
        dtypes: Dtypes,
        options: AttentionOptions,
    ) -> Result<Attention> {
        let variant = variant.into_variant()?;
        if dtypes.kv == Dtype::U8 || variant.kv_formats().is_some() {
            return refuse(
                "keys and values in a KV format are not read from candle's tensors; make the attention with `attn`, \
                 over the memory of the tensors",
            );
        }
        let inner = self.inner().attention_with(&variant, heads, dtypes, options).candle()?;
        let transform = KvTransform::of_cache(self.inner(), &inner, options.head_dim_vo).candle()?.map(Arc::new);
        let value_dim = options.head_dim_vo.dim(heads) as usize;
        Ok(Attention { engine: self.clone(), inner, dtypes, value_dim, transform })
    }
}

impl Attention {
    /// The engine.
    #[must_use]
    pub fn engine(&self) -> &Engine {
        &self.engine
    }

    /// The attention of attn-rs. A parameter tensor that is replaced in it is replaced in [`Attention::transform`] too.
    #[must_use]
    pub fn inner(&self) -> &attn::Attention {
        &self.inner
    }

    /// What [`Attention::append`] applies, where keys and values are stored transformed: it has the parameters of the
    /// variant in memory of its own.
    #[must_use]
    pub fn transform(&self) -> Option<&KvTransform> {
        self.transform.as_deref()
    }

    /// The heads.
    #[must_use]
    pub fn heads(&self) -> Heads {
        self.inner.heads()
    }

    /// The element types.
    #[must_use]
    pub fn dtypes(&self) -> Dtypes {
        self.dtypes
    }

    /// The same attention with the parameters of another layer: those of `variant`, which has the same parts. It shares
    /// the kernels, and plans of this attention also run it ([`RunOptions::layer`](crate::RunOptions::layer)).
    ///
    /// # Errors
    ///
    /// More than parameters differs, or a parameter does not fit; an attention that stores transformed keys.
    pub fn with_parameters(&self, variant: impl IntoVariant) -> Result<Self> {
        if self.transform.is_some() {
            return refuse(
                "an attention over transformed keys has one transform; make an attention of its own for the layer",
            );
        }
        let inner = self.inner.with_parameters(&variant.into_variant()?).candle()?;
        Ok(Attention { inner, ..self.clone() })
    }
}
