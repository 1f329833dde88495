//! Setting parameters of a variant by name.

use super::error::ExprError;
use super::tree::{Node, Variant};
use crate::lang::{ErasedVariant, ParamValue, ParamValues};
use crate::nearest::nearest;

impl Variant {
    /// Sets a parameter: `soft_cap.cap`, or `cap` where only one part has it. Those of KV formats are
    /// `key_format.group` and `value_format.group`; formats are numbered after the parts.
    ///
    /// # Errors
    /// No part or several parts have the parameter, or the part refuses the value. The variant is then unchanged.
    pub fn set(&mut self, path: &str, value: ParamValue) -> Result<(), ExprError> {
        let (part, field) = self.field_at(path)?;
        self.set_in(part, field, value)
    }

    /// The part number and the field that a path names.
    pub(super) fn field_at(&self, path: &str) -> Result<(usize, &'static str), ExprError> {
        let known: Vec<(usize, String, &'static str)> = (self.owners().iter().enumerate())
            .flat_map(|(i, owner)| {
                let name = owner.name;
                owner.fields.iter().map(move |f| (i, format!("{name}.{}", f.name), f.name))
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
        Ok((*i, *field))
    }

    /// Sets a parameter of part number `part`, for parts that share a name.
    ///
    /// # Errors
    /// There is no such part, or it refuses the name or the value. The variant is then unchanged.
    pub fn set_in(&mut self, part: usize, name: &str, value: ParamValue) -> Result<(), ExprError> {
        let expr = self.to_string();
        let mut values = ParamValues::default();
        values.set(name, value);
        let mut number = part;
        let set = match nth(&mut self.nodes, &mut number) {
            Some(slot) => Some(slot.set_values(&values)),
            None => self.formats.as_mut().and_then(|formats| formats.set_values(number, &values)),
        };
        match set {
            Some(set) => set.map_err(|source| ExprError::Param {
                column: None,
                variant: self.owners().get(part).map_or_else(String::new, |owner| owner.name.to_owned()),
                source: Box::new(source),
            }),
            None => {
                let owners = self.owners().into_iter().enumerate();
                let fields = owners.flat_map(|(i, o)| o.fields.iter().map(move |f| format!("{i}.{}", f.name)));
                let (path, known) = (format!("{part}.{name}"), fields.collect());
                Err(ExprError::NoParameter { expr, path, nearest: None, known })
            }
        }
    }
}

/// Part number `number`, counted as [`Variant::parts`] does. `number` is reduced by the parts passed.
fn nth<'v>(nodes: &'v mut [Node], number: &mut usize) -> Option<&'v mut Box<dyn ErasedVariant>> {
    for node in nodes {
        let (part, inner) = node.inside_mut();
        match part {
            Some(part) if *number == 0 => return Some(part),
            Some(_) => *number -= 1,
            None => {}
        }
        for variant in inner {
            if let Some(part) = nth(&mut variant.nodes, number) {
                return Some(part);
            }
        }
    }
    None
}
