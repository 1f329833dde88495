//! A variant to be run: an ordered list of parts.

use std::fmt;
use std::str::FromStr;

use super::error::ExprError;
use super::parse;
use crate::lang::compose::{self, ComposeError};
use crate::lang::params::{ArgVisitor, ShapeProblem};
use crate::lang::{
    BindError, Described, Dims, ErasedVariant, FieldDesc, FieldType, Hook, KvIndex, LogitIndex, Normalizer, ParamValue,
    RowIndex, RowState, Tile, TileClass,
};
use crate::nearest::nearest;
use crate::registry::Registry;

/// A variant to be run: an ordered list of parts, composed. No parts are full attention.
///
/// It comes from a text ([`Variant::parse`]), from types (`compose!`, [`Variant::from`]), or from serde
/// ([`VariantSpec`](super::VariantSpec)). Its [`Display`](fmt::Display) is the canonical expression, which parses back to an equal variant.
#[derive(Clone, Default)]
pub struct Variant {
    parts: Vec<Box<dyn ErasedVariant>>,
}

/// A captured tensor that was not given and has no default.
#[derive(Clone, Debug)]
pub struct MissingTensor {
    /// Number of the part that has it.
    pub part: usize,
    /// Its descriptor.
    pub field: &'static FieldDesc,
    /// Its extents, as far as the sizes are known.
    pub shape: Option<Vec<i64>>,
}

impl Variant {
    /// Full attention: no parts.
    #[must_use]
    pub fn full() -> Self {
        Self::default()
    }

    /// Reads an expression over the variants of the program; the grammar is in [`expr`](crate::expr).
    ///
    /// # Errors
    /// Each names the column, what stands there, and what may.
    pub fn parse(text: &str) -> Result<Self, ExprError> {
        Self::parse_with(text, &*Registry::global()?)
    }

    /// Reads an expression over the variants of a registry.
    ///
    /// # Errors
    /// As [`Variant::parse`].
    pub fn parse_with(text: &str, registry: &Registry) -> Result<Self, ExprError> {
        parse::parse(text, registry)
    }

    /// `self`, then the parts of `other`.
    ///
    /// # Errors
    /// Both change the normaliser, or one brings a sink that the other's normaliser has no place for.
    pub fn and(mut self, other: impl Into<Variant>) -> Result<Self, ComposeError> {
        self.parts.extend(other.into().parts);
        compose::check(&self.parts).map(|()| self)
    }

    /// Adds a part without checking that it goes together with the others. The identity adds nothing.
    pub(crate) fn push(mut self, part: Box<dyn ErasedVariant>) -> Self {
        if !(part.desc().hooks.is_empty() && part.desc().fields.is_empty()) {
            self.parts.push(part);
        }
        self
    }

    /// Checks that the parts go together.
    pub(super) fn checked(self) -> Result<Self, ExprError> {
        compose::check(&self.parts)?;
        Ok(self)
    }

    /// The parts in order.
    pub fn parts(&self) -> impl ExactSizeIterator<Item = &dyn ErasedVariant> {
        self.parts.iter().map(|part| &**part)
    }

    /// Whether a part wrote this hook.
    #[must_use]
    pub fn has(&self, hook: Hook) -> bool {
        self.parts.iter().any(|part| part.desc().has(hook))
    }

    /// The normaliser: of the part that changes it, else softmax.
    #[must_use]
    pub fn normalizer(&self) -> Normalizer {
        self.normalizing_part().map_or(Normalizer::Softmax, |part| part.normalizer())
    }

    fn normalizing_part(&self) -> Option<&dyn ErasedVariant> {
        self.parts().find(|part| part.normalizer() != Normalizer::Softmax)
    }

    fn with_hook(&self, hook: Hook) -> impl Iterator<Item = &dyn ErasedVariant> {
        self.parts().filter(move |part| part.desc().has(hook))
    }

    /// Sets a parameter: `soft_cap.cap`, or `cap` where one part alone has it.
    ///
    /// # Errors
    /// No part or several parts have it, or the part refuses the value; the variant is then unchanged.
    pub fn set(&mut self, path: &str, value: ParamValue) -> Result<(), ExprError> {
        let known: Vec<(usize, String, &'static str)> = (self.parts().enumerate())
            .flat_map(|(i, part)| {
                let desc = part.desc();
                desc.fields.iter().map(move |f| (i, format!("{}.{}", desc.name, f.name), f.name))
            })
            .collect();
        let found: Vec<_> = known.iter().filter(|(_, full, short)| full == path || *short == path).collect();
        let &[(i, _, field)] = found.as_slice() else {
            let names =
                |list: &[&(usize, String, &'static str)]| list.iter().map(|(_, full, _)| full.clone()).collect();
            return Err(if found.is_empty() {
                let known: Vec<String> = known.into_iter().map(|(_, full, _)| full).collect();
                let words = known.iter().flat_map(|full| [Some(full.as_str()), full.split('.').nth(1)]).flatten();
                let nearest = nearest(path, words).map(str::to_owned);
                ExprError::NoParameter { expr: self.to_string(), path: path.to_owned(), nearest, known }
            } else {
                ExprError::Ambiguous { expr: self.to_string(), path: path.to_owned(), candidates: names(&found) }
            });
        };
        self.set_in(*i, field, value)
    }

    /// Sets a parameter of part number `part`, where a name alone does not tell two parts apart.
    ///
    /// # Errors
    /// There is no such part, or it refuses the name or the value; the variant is then unchanged.
    pub fn set_in(&mut self, part: usize, name: &str, value: ParamValue) -> Result<(), ExprError> {
        let expr = self.to_string();
        let Some(slot) = self.parts.get_mut(part) else {
            let fields = |(i, part): (usize, &dyn ErasedVariant)| {
                part.desc().fields.iter().map(move |f| format!("{i}.{}", f.name))
            };
            let known = self.parts().enumerate().flat_map(fields).collect();
            return Err(ExprError::NoParameter { expr, path: format!("{part}.{name}"), nearest: None, known });
        };
        let desc = slot.desc();
        let mut values = slot.to_values();
        values.set(name, value);
        *slot = (desc.make)(&values).map_err(|source| ExprError::Param {
            column: None,
            variant: desc.name.to_owned(),
            source: Box::new(source),
        })?;
        Ok(())
    }

    /// The captured tensors that were not given and have no default, which a binding would refuse.
    ///
    /// # Errors
    /// A shape that overflows or divides by zero with these values.
    pub fn missing(&self, dims: &Dims) -> Result<Vec<MissingTensor>, BindError> {
        let mut missing = Vec::new();
        for (part, variant) in self.parts().enumerate() {
            let values = variant.to_values();
            for (i, field) in variant.desc().fields.iter().enumerate() {
                let tensor = matches!(field.ty, FieldType::Tensor { .. });
                if !tensor || field.default.is_some() || values.get(field.name).is_some() {
                    continue;
                }
                let shape = match variant.shape(i, dims) {
                    Ok(shape) => Some(shape),
                    Err(ShapeProblem::Unknown) => None,
                    Err(ShapeProblem::Arithmetic) => {
                        let (name, shape) = (field.name.to_owned(), field.shape.to_owned());
                        return Err(BindError::ShapeArithmetic { name, shape });
                    }
                };
                missing.push(MissingTensor { part, field, shape });
            }
        }
        Ok(missing)
    }

    /// A copy that is ready to run with these sizes: conditions checked, unset tensors filled from their defaults,
    /// shapes checked as far as `dims` knows them. Binding again with more sizes known is how planning goes on.
    ///
    /// # Errors
    /// Each names the part and the parameter, its value, and what is allowed.
    pub fn bind(&self, dims: &Dims) -> Result<Variant, BindError> {
        compose::check(&self.parts)?;
        let mut bound = self.clone();
        for part in &mut bound.parts {
            part.bind(dims)
                .map_err(|source| BindError::Part { variant: part.desc().name.to_owned(), source: Box::new(source) })?;
        }
        Ok(bound)
    }

    /// Visits the parameters of the parts in order, as kernel arguments.
    pub fn visit_args(&self, visitor: &mut dyn ArgVisitor) {
        self.parts().for_each(|part| part.visit_args(visitor));
    }
}

/// The hooks of the composition, on the CPU. Indices and tiles are as in [`ErasedVariant`].
impl Variant {
    /// Transforms a query row, part by part.
    pub fn query_row(&self, q: &mut [f32], at: RowIndex) {
        self.with_hook(Hook::QueryTransform).for_each(|part| part.query_row(q, at));
    }
    /// Transforms a key row, part by part.
    pub fn key_row(&self, k: &mut [f32], at: KvIndex) {
        self.with_hook(Hook::KeyTransform).for_each(|part| part.key_row(k, at));
    }
    /// Transforms the logits of a tile row, part by part.
    pub fn logits_tile(&self, logits: &mut [f32], at: LogitIndex) {
        self.with_hook(Hook::LogitsTransform).for_each(|part| part.logits_tile(logits, at));
    }
    /// `keep[i] &=` whether every part attends.
    pub fn mask_tile(&self, keep: &mut [bool], at: LogitIndex) {
        self.with_hook(Hook::LogitsMask).for_each(|part| part.mask_tile(keep, at));
    }
    /// Turns logits into weights: by the part that changes the normaliser, else `exp(logit - row_max)`.
    pub fn weight_tile(&self, logits: &mut [f32], row_max: f32, at: LogitIndex) {
        match self.normalizing_part() {
            Some(part) => part.weight_tile(logits, row_max, at),
            None => logits.iter_mut().for_each(|logit| *logit = (*logit - row_max).exp()),
        }
    }
    /// The logit of all sinks together: the logarithm of the sum of their exponentials.
    #[must_use]
    pub fn sink_logit(&self, at: RowIndex) -> f32 {
        self.with_hook(Hook::SinkLogit).map(|part| part.sink_logit(at)).fold(f32::NEG_INFINITY, log_add_exp)
    }
    /// Transforms the finished output row, part by part.
    pub fn output_row(&self, o: &mut [f32], state: RowState, at: RowIndex) {
        self.with_hook(Hook::OutputTransform).for_each(|part| part.output_row(o, state, at));
    }
    /// What is known of a tile under the masks of all parts. A mask without `tile_class` proves nothing.
    #[must_use]
    pub fn tile_class(&self, tile: Tile) -> TileClass {
        self.with_hook(Hook::LogitsMask).fold(TileClass::Full, |class, part| {
            class.and(part.mask_over(&tile).into())
        })
    }
}

/// `ln(exp(a) + exp(b))`.
fn log_add_exp(a: f32, b: f32) -> f32 {
    let (low, high) = if a < b { (a, b) } else { (b, a) };
    if low == f32::NEG_INFINITY { high } else { high + (low - high).exp().ln_1p() }
}

impl<V: Described> From<V> for Variant {
    fn from(variant: V) -> Self {
        Variant::full().push(Box::new(variant))
    }
}

impl FromStr for Variant {
    type Err = ExprError;
    fn from_str(text: &str) -> Result<Self, ExprError> {
        Variant::parse(text)
    }
}

/// The canonical expression.
impl fmt::Display for Variant {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (i, part) in self.parts().enumerate() {
            write!(f, "{}{part}", if i == 0 { "" } else { " + " })?;
        }
        f.write_str(if self.parts.is_empty() { "full" } else { "" })
    }
}

impl fmt::Debug for Variant {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Variant({self})")
    }
}

/// Equal parts in the same order: the same descriptors, and the same values given.
impl PartialEq for Variant {
    fn eq(&self, other: &Self) -> bool {
        self.parts.len() == other.parts.len()
            && (self.parts().zip(other.parts()))
                .all(|(a, b)| std::ptr::eq(a.desc(), b.desc()) && a.to_values() == b.to_values())
    }
}
