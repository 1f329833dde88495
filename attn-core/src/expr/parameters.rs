//! The parameters of a variant by name: setting them, those that are missing, and tensors with new content.

use super::content::{ContentError, TensorContent, TensorSlot};
use super::error::ExprError;
use super::missing::{MissingTensor, missing};
use super::owner::{FieldValue, GivenTensor, owners};
use super::tree::{Node, Variant};
use crate::lang::{BindError, Dims, ErasedVariant, FieldType, Hook, ParamValue, ParamValues};
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
        let known: Vec<(usize, String, &'static str)> = (owners(self).iter().enumerate())
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
        let set = match part_mut(&mut self.nodes, &mut number) {
            Some(slot) => Some(slot.set_values(&values)),
            None => self.kv.formats.as_mut().and_then(|formats| formats.set_values(number, &values)),
        };
        match set {
            Some(set) => set.map_err(|source| ExprError::Param {
                column: None,
                variant: owners(self).get(part).map_or_else(String::new, |owner| owner.name.to_owned()),
                source: Box::new(source),
            }),
            None => {
                let owners = owners(self).into_iter().enumerate();
                let fields = owners.flat_map(|(i, o)| o.fields.iter().map(move |f| format!("{i}.{}", f.name)));
                let (path, known) = (format!("{part}.{name}"), fields.collect());
                Err(ExprError::NoParameter { expr, path, nearest: None, known })
            }
        }
    }

    /// The tensors that were not given and have no default. Binding refuses a variant that has any.
    ///
    /// # Errors
    /// A shape overflows or divides by zero with these dimensions.
    pub fn missing(&self, dims: &Dims) -> Result<Vec<MissingTensor>, BindError> {
        missing(&owners(self), dims)
    }

    /// The parameter tensor with this name (`page_list.pages`, or `pages` where only one part has it; of KV formats
    /// `key_format.scales` and `value_format.scales`), if its content can be replaced while plans that were made with
    /// it live on.
    ///
    /// The content cannot be replaced where the host has read the values: tensors that tile classes depend on, unless
    /// they are `#[mutable]`, tensors of a part with `kv_range`, `#[monotone]` tensors, and tensors of a union, whose
    /// branches have copies. A plan depends only on the lengths of key lists (`kv_list_len`, `kv_list_block`); kernels
    /// read the blocks at each launch. The plan stays valid for lists that are not longer, and reads at most the
    /// planned length.
    ///
    /// # Errors
    ///
    /// [`ContentError`] says why it cannot be replaced.
    pub fn tensor_slot(&self, path: &str) -> Result<TensorSlot, ContentError> {
        let (part, name) = self.field_at(path).map_err(Box::new)?;
        let not = |why| Err(ContentError::NoTensor { name: name.to_owned(), why });
        let fixed = |why| Err(ContentError::Fixed { name: name.to_owned(), why });
        let owners = owners(self);
        let found = owners.get(part).and_then(|owner| Some((owner, owner.field(name)?)));
        let Some((owner, field)) = found else { return not("is not there") };
        let FieldType::Tensor { elem, .. } = owner.fields[field].ty else { return not("is not a parameter tensor") };
        if self.has_union() {
            return fixed("each branch of a union has a copy");
        }
        let (mutable, desc) = (owner.fields[field].mutable, owner.variant);
        if desc.is_some_and(|desc| desc.mask.tables.contains(&name)) && !mutable {
            return fixed("tiles are skipped by what it held, since the field is not `#[mutable]`");
        }
        if owner.fields[field].monotone {
            return fixed("it is relied on to rise");
        }
        if desc.is_some_and(|desc| desc.has(Hook::KvRange)) {
            return fixed("plans rely on `kv_range`, which may read it");
        }
        match owner.tensor(field) {
            Some(GivenTensor { shape, bytes, .. }) if bytes > 0 => {
                Ok(TensorSlot { part, field, name, elem, shape, bytes })
            }
            _ => not("has no values"),
        }
    }

    /// Replaces the values of a tensor in this handle of the variant only.
    ///
    /// # Errors
    ///
    /// The values do not fit, are in device memory, or break a `#[require]`.
    pub fn set_content(&mut self, slot: &TensorSlot, content: &TensorContent<'_>) -> Result<(), ContentError> {
        slot.check(content)?;
        self.set_elements(slot, slot.host_values(content)?)
    }

    /// Replaces some elements of a tensor in this handle of the variant only: `replace` gets all of them, row-major,
    /// and those of `content`.
    pub(crate) fn edit_content(
        &mut self,
        slot: &TensorSlot,
        content: &TensorContent<'_>,
        replace: impl FnOnce(&mut [ParamValue], Vec<ParamValue>),
    ) -> Result<(), ContentError> {
        let given = slot.host_values(content)?;
        let known = owners(self).get(slot.part).and_then(|owner| owner.params.to_values().get(slot.name).cloned());
        let why = "was filled from its default";
        let known = known.ok_or_else(|| ContentError::NoTensor { name: slot.name.to_owned(), why })?;
        let mut elements = Vec::new();
        flatten(known, &mut elements);
        replace(&mut elements, given);
        self.set_elements(slot, elements)
    }

    fn set_elements(&mut self, slot: &TensorSlot, elements: Vec<ParamValue>) -> Result<(), ContentError> {
        let value = ParamValue::nested(&slot.shape, &mut elements.into_iter());
        self.set_in(slot.part, slot.name, value).map_err(|error| Box::new(error).into())
    }

    /// The host address of a tensor's elements, and how many parameter tensors before it, in the order of visits, share
    /// that address.
    #[must_use]
    pub fn content_address(&self, slot: &TensorSlot) -> Option<(usize, usize)> {
        let owners = owners(self);
        let address = owners.get(slot.part)?.tensor(slot.field)?.address;
        let before = owners.iter().enumerate().take(slot.part + 1).flat_map(|(part, owner)| {
            let fields = if part == slot.part { slot.field } else { owner.fields.len() };
            owner.values().into_iter().take(fields)
        });
        let shares = |value: &FieldValue| matches!(value, FieldValue::Tensor(tensor) if tensor.address == address);
        Some((address, before.filter(shares).count()))
    }
}

/// Part number `number`, counted as [`Variant::parts`] does. Without such a part, `number` is left less the number of
/// parts: the number of a KV format.
fn part_mut<'v>(nodes: &'v mut [Node], number: &mut usize) -> Option<&'v mut Box<dyn ErasedVariant>> {
    for node in nodes {
        let (part, inner) = node.inside_mut();
        match part {
            Some(part) if *number == 0 => return Some(part),
            Some(_) => *number -= 1,
            None => {}
        }
        for variant in inner {
            if let Some(part) = part_mut(&mut variant.nodes, number) {
                return Some(part);
            }
        }
    }
    None
}

/// Appends the elements of nested lists, row-major.
fn flatten(value: ParamValue, to: &mut Vec<ParamValue>) {
    match value {
        ParamValue::List(values) => values.into_iter().for_each(|value| flatten(value, to)),
        value => to.push(value),
    }
}
