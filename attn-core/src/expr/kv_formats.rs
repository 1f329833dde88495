//! KV formats by name.

use super::error::ExprError;
use super::parse;
use crate::dtype::Dtypes;
use crate::lang::KvFormats;
use crate::registry::Registry;

impl KvFormats {
    /// Reads formats of the program: one for keys and values (`int4(group=32)`), or one for each (`int8 /
    /// int4(group=32)`). Their parameter tensors are set by type, or by name once an attention is made.
    ///
    /// # Errors
    /// Each names the column, what was found there, and what may stand there.
    pub fn parse(text: &str) -> Result<Self, ExprError> {
        Self::parse_with(text, &*Registry::global()?)
    }

    /// Reads formats of a registry, like [`KvFormats::parse`].
    ///
    /// # Errors
    /// The errors of [`KvFormats::parse`].
    pub fn parse_with(text: &str, registry: &Registry) -> Result<Self, ExprError> {
        parse::formats(text, registry)
    }
}

impl Dtypes {
    /// The same types with keys and values in the formats of a text, as [`KvFormats::parse`] reads it. K and V are then
    /// tensors of bytes ([`TensorRef::bytes`](crate::tensor::TensorRef::bytes)).
    ///
    /// # Errors
    /// The errors of [`KvFormats::parse`].
    pub fn with_kv_format(self, text: &str) -> Result<Self, ExprError> {
        Ok(self.with_format(KvFormats::parse(text)?.id()))
    }
}

#[cfg(test)]
mod tests;
