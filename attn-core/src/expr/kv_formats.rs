//! KV formats by name, and the formats that a variant's keys and values are stored in.

use super::error::ExprError;
use super::parse;
use super::tree::Variant;
use crate::dtype::{Dtypes, DtypesError};
use crate::lang::{
    FieldDesc, Hook, VariantDesc,
    kv_format::{KvFormatId, KvFormats},
    params::{Dims, ErasedParams},
};
use crate::registry::Registry;
use crate::spec::{HeadDimVo, HeadsError, KvStored};

impl KvFormats {
    /// Reads formats of the program: one for keys and values (`int4(group=32)`), or one for each (`int8 /
    /// int4(group=32)`). Their parameter tensors are set by type, or by name once an attention is made.
    ///
    /// # Errors
    /// Each names the column, what was found there, and what may stand there.
    pub fn parse(text: &str) -> Result<Self, ExprError> {
        Self::parse_with(text, &*Registry::global()?)
    }

    /// As [`KvFormats::parse`], over the formats of a registry.
    ///
    /// # Errors
    /// As [`KvFormats::parse`].
    pub fn parse_with(text: &str, registry: &Registry) -> Result<Self, ExprError> {
        parse::formats(text, registry)
    }
}

impl Dtypes {
    /// The same types with keys and values in the formats of a text, as [`KvFormats::parse`] reads it. K and V are then
    /// tensors of bytes ([`TensorRef::bytes`](crate::tensor::TensorRef::bytes)).
    ///
    /// # Errors
    /// As [`KvFormats::parse`].
    pub fn with_kv_format(self, text: &str) -> Result<Self, ExprError> {
        Ok(self.with_format(KvFormats::parse(text)?.id()))
    }
}

/// A part or a KV format: what has parameters.
pub(super) struct Owner<'v> {
    /// The prefix of its parameters' names.
    pub(super) name: &'static str,
    pub(super) fields: &'static [FieldDesc],
    pub(super) params: &'v dyn ErasedParams,
    /// `None` for a KV format.
    pub(super) variant: Option<&'static VariantDesc>,
    /// 0 or 1 for the format of keys or of values.
    pub(super) format: Option<usize>,
}

impl Owner<'_> {
    /// The dimensions that its parameters are bound to.
    pub(super) fn dims(&self, dims: &Dims) -> Dims {
        self.format.map_or(*dims, |part| KvFormats::dims_of(part, dims))
    }
}

impl Variant {
    /// The variant over keys and values that are stored in these formats.
    #[must_use]
    pub fn with_kv_formats(mut self, formats: KvFormats) -> Self {
        self.formats = Some(formats);
        self
    }

    /// The formats of keys and values; `None` if their elements are numbers.
    #[must_use]
    pub fn kv_formats(&self) -> Option<&KvFormats> {
        self.formats.as_ref()
    }

    /// The variant without formats of keys and values.
    #[must_use]
    pub fn without_kv_formats(&self) -> Self {
        Variant { formats: None, ..self.clone() }
    }

    /// The variant over keys and values of these types, and the types with the formats that either of them names.
    ///
    /// # Errors
    ///
    /// [`DtypesError`] for types and formats of keys and values that do not go together. The type of queries is left to
    /// [`Dtypes::check`].
    pub fn over(&self, dtypes: Dtypes, head_dim_vo: HeadDimVo) -> Result<(Variant, Dtypes), DtypesError> {
        let of_variant = self.formats.as_ref().map(KvFormats::id);
        if let (Some(variant), Some(dtypes)) = (of_variant, dtypes.format)
            && variant != dtypes
        {
            return Err(DtypesError::TwoFormats { variant, dtypes });
        }
        let formats = self.formats.clone().or_else(|| dtypes.format.map(KvFormatId::formats));
        let dtypes = Dtypes { format: formats.as_ref().map(KvFormats::id), ..dtypes };
        dtypes.check_format()?;
        let Some(formats) = formats else { return Ok((self.clone(), dtypes)) };
        let formats = match head_dim_vo.shares_keys() {
            true if formats.keys() != formats.values() => {
                return Err(DtypesError::Shared { format: formats.id() });
            }
            true => formats.shared_with_keys(),
            false => formats,
        };
        Ok((self.clone().with_kv_formats(formats), dtypes))
    }

    /// Refuses a value transform that no append applies and no kernel: values that are the first elements of stored
    /// keys are stored as keys are.
    ///
    /// # Errors
    ///
    /// [`HeadsError::TransformedInKeys`].
    pub fn check_stored(&self, stored: KvStored, head_dim_vo: HeadDimVo) -> Result<(), HeadsError> {
        let of_values = || self.parts().find(|part| part.desc().has(Hook::ValueTransform));
        match of_values().filter(|_| stored == KvStored::Transformed && head_dim_vo.shares_keys()) {
            Some(part) => Err(HeadsError::TransformedInKeys { variant: part.desc().name }),
            None => Ok(()),
        }
    }

    /// The variant over keys and values that are stored as those of `other`: transformed or not, in its formats unless
    /// this variant has formats.
    #[must_use]
    pub fn stored_as(self, other: &Variant) -> Self {
        let shared = other.formats.as_ref().is_some_and(KvFormats::shares_keys);
        let own = self.formats.map(|own| if shared { own.shared_with_keys() } else { own });
        Variant { nodes: self.nodes, stored: other.stored, formats: own.or_else(|| other.formats.clone()) }
    }

    /// What an append to a cache of this variant does: its transforms, where keys and values are stored transformed,
    /// and its formats. `None` where rows are stored as they are given.
    #[must_use]
    pub fn of_appends(&self) -> Option<Variant> {
        match (self.stored, &self.formats) {
            (KvStored::Transformed, _) => Some(self.clone().with_stored(KvStored::Raw)),
            (KvStored::Raw, Some(formats)) => Some(Variant::full().with_kv_formats(formats.clone())),
            (KvStored::Raw, None) => None,
        }
    }

    /// The parts, and then the formats of keys and values: what has parameters.
    pub(super) fn owners(&self) -> Vec<Owner<'_>> {
        let parts = self.parts().map(|part| {
            let desc = part.desc();
            Owner { name: desc.name, fields: desc.fields, params: part, variant: Some(desc), format: None }
        });
        let formats = self.formats.iter().flat_map(KvFormats::owners).enumerate();
        let formats = formats.map(|(i, (name, format))| Owner {
            name,
            fields: format.desc().fields,
            params: format,
            variant: None,
            format: Some(i),
        });
        parts.chain(formats).collect()
    }
}

/// Whether two variants have formats of the same rows.
pub(super) fn same_formats(a: &Variant, b: &Variant) -> bool {
    let of = |variant: &Variant| variant.formats.as_ref().map(|formats| (formats.id(), formats.shares_keys()));
    of(a) == of(b)
}

#[cfg(test)]
mod tests;
