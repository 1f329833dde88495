//! Replacing the content of a parameter tensor in place, while plans that use it live on.

use std::fmt;

use super::{ExprError, Variant, kv_formats::Owner};
use crate::lang::{
    FieldType, Hook, ParamValue, Tensor1,
    desc::Elem,
    param_tensor::{OutBuffer, ParamElement},
    params::{ArgVisitor, ErasedParams, ParamField, TensorArg},
};

/// New elements for a parameter tensor in row-major order, in host or device memory.
pub struct TensorContent<'a> {
    elem: Elem,
    bytes: usize,
    location: ContentLocation<'a>,
}

enum ContentLocation<'a> {
    Host(Box<dyn Elements + 'a>),
    Device(u64),
}

/// Host elements, without their type.
trait Elements {
    fn bytes(&self) -> &[u8];
    /// The values that an index gives, in order.
    fn values(&self) -> Vec<ParamValue>;
}

impl<T: ParamElement> Elements for &[T]
where
    Tensor1<T>: ParamField,
{
    fn bytes(&self) -> &[u8] {
        bytemuck::cast_slice(self)
    }
    fn values(&self) -> Vec<ParamValue> {
        match Tensor1::from(*self).to_value() {
            Some(ParamValue::List(values)) => values,
            _ => Vec::new(),
        }
    }
}

impl<'a> TensorContent<'a> {
    /// Elements in host memory.
    #[must_use]
    pub fn host<T: ParamElement>(values: &'a [T]) -> Self
    where
        Tensor1<T>: ParamField,
    {
        TensorContent { elem: T::ELEM, bytes: size_of_val(values), location: ContentLocation::Host(Box::new(values)) }
    }

    /// `len` elements at a device pointer.
    ///
    /// # Safety
    ///
    /// `ptr` points to `len` elements of `T` on the device of the attention, which stay valid until every copy from
    /// them has finished, replayed graph captures included.
    #[must_use]
    pub unsafe fn device<T: ParamElement>(ptr: u64, len: usize) -> Self {
        TensorContent {
            elem: T::ELEM,
            bytes: len.saturating_mul(size_of::<T>()),
            location: ContentLocation::Device(ptr),
        }
    }

    /// The length in bytes.
    #[must_use]
    pub fn byte_len(&self) -> usize {
        self.bytes
    }

    /// The bytes; `None` in device memory.
    #[must_use]
    pub fn as_host(&self) -> Option<&[u8]> {
        match &self.location {
            ContentLocation::Host(elements) => Some(elements.bytes()),
            ContentLocation::Device(_) => None,
        }
    }

    /// The device pointer; `None` in host memory.
    #[must_use]
    pub fn device_ptr(&self) -> Option<u64> {
        match self.location {
            ContentLocation::Host(_) => None,
            ContentLocation::Device(ptr) => Some(ptr),
        }
    }
}

impl fmt::Debug for TensorContent<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let location = if self.device_ptr().is_some() { "device" } else { "host" };
        write!(f, "{} bytes of {} in memory of the {location}", self.bytes, self.elem.name())
    }
}

/// A parameter tensor of a variant.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TensorSlot {
    /// Number of its part, counted as [`Variant::parts`] does; formats of keys and of values come after all parts.
    pub part: usize,
    /// Number of its field.
    pub field: usize,
    /// Name of the field.
    pub name: &'static str,
    /// The type of its elements.
    pub elem: Elem,
    /// Its extents.
    pub shape: Vec<i64>,
    /// Its bytes.
    pub bytes: usize,
}

/// Why the content of a tensor cannot be replaced.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum ContentError {
    /// No parameter or several have that name, or it refuses the values.
    #[error(transparent)]
    Expr(#[from] Box<ExprError>),
    /// The parameter is not a tensor with values.
    #[error(
        "`{name}` {why}; what is replaced in place is a parameter tensor that was given when the attention was made"
    )]
    NoTensor {
        /// The parameter.
        name: String,
        /// Why it is not a tensor with values.
        why: &'static str,
    },
    /// Plans or tile classes depend on the values of the tensor.
    #[error("`{name}` cannot be replaced in place: {why}; make another attention with the new values")]
    Fixed {
        /// The parameter.
        name: String,
        /// What depends on its values.
        why: &'static str,
    },
    /// The elements have another type.
    #[error("`{name}` is of {want}; got {got}")]
    Elem {
        /// The parameter.
        name: String,
        /// The type of its elements.
        want: &'static str,
        /// The type given.
        got: &'static str,
    },
    /// The number of elements differs.
    #[error("`{name}` takes {want} bytes, since its shape stays {shape:?}; got {got}")]
    Len {
        /// The parameter.
        name: String,
        /// Its extents.
        shape: Vec<i64>,
        /// Its bytes.
        want: usize,
        /// Bytes given.
        got: usize,
    },
    /// Rows do not have the length of rows of the tensor.
    #[error(
        "{rows} rows for `{name}` of shape {shape:?} have {got} bytes in all; a row is an element or all elements \
         along the last axes, in whole bytes"
    )]
    Rows {
        /// The parameter.
        name: String,
        /// Its extents.
        shape: Vec<i64>,
        /// Number of rows given.
        rows: usize,
        /// Bytes given.
        got: usize,
    },
    /// A row past the end of the tensor.
    #[error(
        "row {row} of the {rows} rows of `{name}` was asked for; make the attention with a larger tensor, or give -1 \
         for a row that is not to be written"
    )]
    Row {
        /// The parameter.
        name: String,
        /// The row asked for.
        row: i32,
        /// Rows that the tensor has.
        rows: usize,
    },
    /// The elements are in the wrong memory: host or device.
    #[error("the values for `{name}` are in memory of {got}, and this attention is on {want}")]
    Memory {
        /// The parameter.
        name: String,
        /// Where they are.
        got: &'static str,
        /// Where they should be.
        want: &'static str,
    },
}

impl TensorSlot {
    /// Checks the type and the number of the elements.
    ///
    /// # Errors
    ///
    /// The type or the number differs.
    pub fn check(&self, content: &TensorContent<'_>) -> Result<(), ContentError> {
        self.check_elem(content)?;
        if content.bytes != self.bytes {
            let (shape, want, got) = (self.shape.clone(), self.bytes, content.bytes);
            return Err(ContentError::Len { name: self.name.to_owned(), shape, want, got });
        }
        Ok(())
    }

    /// Checks the type of the elements.
    ///
    /// # Errors
    ///
    /// The type differs.
    pub fn check_elem(&self, content: &TensorContent<'_>) -> Result<(), ContentError> {
        let (want, got) = (self.elem.name(), content.elem.name());
        if want == got { Ok(()) } else { Err(ContentError::Elem { name: self.name.to_owned(), want, got }) }
    }

    /// The values in host memory.
    fn host_values(&self, content: &TensorContent<'_>) -> Result<Vec<ParamValue>, ContentError> {
        match &content.location {
            ContentLocation::Host(elements) => Ok(elements.values()),
            ContentLocation::Device(_) => {
                Err(ContentError::Memory { name: self.name.to_owned(), got: "a CUDA device", want: "the CPU" })
            }
        }
    }
}

impl Variant {
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
        let owners = self.owners();
        let found = owners.get(part).and_then(|owner| Some((owner, field_of(owner, name)?)));
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
        match arg(owner.params, field) {
            Some(Found { shape, bytes, .. }) if bytes > 0 => Ok(TensorSlot { part, field, name, elem, shape, bytes }),
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
        let known = self.owners().get(slot.part).and_then(|owner| owner.params.to_values().get(slot.name).cloned());
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
        let owners = self.owners();
        let address = arg(owners.get(slot.part)?.params, slot.field)?.address;
        let before = owners.iter().enumerate().take(slot.part + 1).flat_map(|(part, owner)| {
            let fields = if part == slot.part { slot.field } else { owner.fields.len() };
            (0..fields).filter_map(|field| arg(owner.params, field))
        });
        Some((address, before.filter(|found| found.address == address).count()))
    }
}

fn flatten(value: ParamValue, to: &mut Vec<ParamValue>) {
    match value {
        ParamValue::List(values) => values.into_iter().for_each(|value| flatten(value, to)),
        value => to.push(value),
    }
}

fn field_of(owner: &Owner<'_>, name: &str) -> Option<usize> {
    owner.fields.iter().position(|field| field.name == name)
}

/// Finds one parameter tensor among the arguments.
struct Found {
    address: usize,
    shape: Vec<i64>,
    bytes: usize,
}

fn arg(params: &dyn ErasedParams, field: usize) -> Option<Found> {
    struct Finder {
        left: Option<usize>,
        found: Option<Found>,
    }
    impl Finder {
        fn is_it(&mut self) -> bool {
            let is_it = self.left == Some(0);
            self.left = self.left.and_then(|left| left.checked_sub(1));
            is_it
        }
    }
    impl ArgVisitor for Finder {
        fn scalar(&mut self, _bits: u32) {
            self.is_it();
        }
        fn tensor(&mut self, tensor: TensorArg<'_>) {
            if self.is_it() {
                let (address, bytes) = (tensor.bytes.as_ptr() as usize, tensor.bytes.len());
                self.found = Some(Found { address, shape: tensor.shape.to_vec(), bytes });
            }
        }
        fn out(&mut self, _buffer: Option<&OutBuffer>, _shape: &[i64]) {
            self.is_it();
        }
    }
    let mut finder = Finder { left: Some(field), found: None };
    params.visit_args(&mut finder);
    finder.found
}
