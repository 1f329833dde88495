//! The content of a captured tensor, replaced where it is: what may be, and by what.

use std::fmt;

use super::{ExprError, Variant};
use crate::lang::{
    ErasedVariant, FieldType, Hook, ParamValue, Tensor1,
    desc::Elem,
    params::{ArgVisitor, ParamField, TensorArg},
    table::{OutBuffer, TableElem},
};

/// Elements for a captured tensor, in the order of memory: of the host, or of a device.
pub struct TensorContent<'a> {
    elem: Elem,
    bytes: usize,
    place: Place<'a>,
}

enum Place<'a> {
    Host(Box<dyn Elements + 'a>),
    Device(u64),
}

/// Elements of some type.
trait Elements {
    fn bytes(&self) -> &[u8];
    /// What an index gives, in order.
    fn values(&self) -> Vec<ParamValue>;
}

impl<T: TableElem> Elements for &[T]
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
    /// Elements in memory of the host.
    #[must_use]
    pub fn host<T: TableElem>(values: &'a [T]) -> Self
    where
        Tensor1<T>: ParamField,
    {
        TensorContent { elem: T::ELEM, bytes: size_of_val(values), place: Place::Host(Box::new(values)) }
    }

    /// `len` elements at a device pointer.
    ///
    /// # Safety
    ///
    /// They are there, and stay until everything that copies them has finished: captured copies, too, which are replayed.
    #[must_use]
    pub unsafe fn device<T: TableElem>(ptr: u64, len: usize) -> Self {
        TensorContent { elem: T::ELEM, bytes: len.saturating_mul(size_of::<T>()), place: Place::Device(ptr) }
    }

    /// The bytes, if they are in memory of the host.
    #[must_use]
    pub fn as_host(&self) -> Option<&[u8]> {
        match &self.place {
            Place::Host(elements) => Some(elements.bytes()),
            Place::Device(_) => None,
        }
    }

    /// The device pointer; `None` for memory of the host.
    #[must_use]
    pub fn device_ptr(&self) -> Option<u64> {
        match self.place {
            Place::Host(_) => None,
            Place::Device(ptr) => Some(ptr),
        }
    }
}

impl fmt::Debug for TensorContent<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let place = if self.device_ptr().is_some() { "device" } else { "host" };
        write!(f, "{} bytes of {} in memory of the {place}", self.bytes, self.elem.name())
    }
}

/// Which captured tensor of a variant.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TensorSlot {
    /// The number of its part, as [`Variant::parts`] counts.
    pub part: usize,
    /// The number of its field.
    pub field: usize,
    /// The name of the field.
    pub name: &'static str,
    /// What it is made of.
    pub elem: Elem,
    /// Its extents.
    pub shape: Vec<i64>,
    /// Its bytes.
    pub bytes: usize,
}

/// Why the content of a tensor is not replaced.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum ContentError {
    /// No parameter of that name, or several, or one that refuses the values.
    #[error(transparent)]
    Expr(#[from] Box<ExprError>),
    /// A parameter that is no captured tensor with values.
    #[error(
        "`{name}` {why}; what is replaced in place is a captured tensor that was given when the attention was made"
    )]
    NoTensor {
        /// The parameter.
        name: String,
        /// What it is.
        why: &'static str,
    },
    /// A tensor whose values plans and tiles were made from.
    #[error("`{name}` cannot be replaced in place: {why}; make another attention with the new values")]
    Fixed {
        /// The parameter.
        name: String,
        /// What was made from it.
        why: &'static str,
    },
    /// Elements of another type.
    #[error("`{name}` is of {want}; got {got}")]
    Elem {
        /// The parameter.
        name: String,
        /// What it is made of.
        want: &'static str,
        /// What was given.
        got: &'static str,
    },
    /// More or fewer of them.
    #[error("`{name}` takes {want} bytes, since its shape stays {shape:?}; got {got}")]
    Len {
        /// The parameter.
        name: String,
        /// Its extents.
        shape: Vec<i64>,
        /// Its bytes.
        want: usize,
        /// Those given.
        got: usize,
    },
    /// Elements in other memory.
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
    /// Checks that elements are of the type and as many as the tensor has.
    ///
    /// # Errors
    ///
    /// Which of both they are not.
    pub fn check(&self, content: &TensorContent<'_>) -> Result<(), ContentError> {
        let name = || self.name.to_owned();
        if content.elem != self.elem {
            return Err(ContentError::Elem { name: name(), want: self.elem.name(), got: content.elem.name() });
        }
        if content.bytes != self.bytes {
            let (shape, want, got) = (self.shape.clone(), self.bytes, content.bytes);
            return Err(ContentError::Len { name: name(), shape, want, got });
        }
        Ok(())
    }
}

impl Variant {
    /// The captured tensor of a name (`page_list.pages`, or `pages` where one part alone has it), if its content may be replaced while plans
    /// that were made with it go on.
    ///
    /// That is refused for what more than kernels read: tables that masks over tiles ask, those of a part with `kv_range`, those that are `#[monotone]`, and of
    /// unions, whose arms have copies. Of lists of keys (`kv_list_len`, `kv_list_block`) plans take the length alone, and kernels look at it again:
    /// a plan is good for lists that are not longer than those that it was made with, and what is beyond is not read.
    ///
    /// # Errors
    ///
    /// [`ContentError`] says why not.
    pub fn tensor_slot(&self, path: &str) -> Result<TensorSlot, ContentError> {
        let (part, name) = self.place_of(path).map_err(Box::new)?;
        let not = |why| Err(ContentError::NoTensor { name: name.to_owned(), why });
        let fixed = |why| Err(ContentError::Fixed { name: name.to_owned(), why });
        let Some((owner, field)) = self.parts().nth(part).and_then(|owner| Some((owner, field_of(owner, name)?)))
        else {
            return not("is not there");
        };
        let desc = owner.desc();
        let FieldType::Tensor { elem, .. } = desc.fields[field].ty else { return not("is not a captured tensor") };
        if self.has_union() {
            return fixed("each arm of a union has a copy");
        }
        if desc.mask.tables.contains(&name) {
            return fixed("tiles are skipped by what it held");
        }
        if desc.fields[field].monotone {
            return fixed("it is relied on to rise");
        }
        if desc.has(Hook::KvRange) {
            return fixed("plans rely on `kv_range`, which may read it");
        }
        match arg(owner, field) {
            Some(Found { shape, bytes, .. }) if bytes > 0 => Ok(TensorSlot { part, field, name, elem, shape, bytes }),
            _ => not("has no values"),
        }
    }

    /// Puts other values into a tensor, of this handle of the variant alone.
    ///
    /// # Errors
    ///
    /// Values that do not fit, that are on a device, or that a condition of the parameter refuses.
    pub fn set_content(&mut self, slot: &TensorSlot, content: &TensorContent<'_>) -> Result<(), ContentError> {
        slot.check(content)?;
        let Place::Host(elements) = &content.place else {
            return Err(ContentError::Memory { name: slot.name.to_owned(), got: "a CUDA device", want: "the CPU" });
        };
        let value = nested(&mut elements.values().into_iter(), &slot.shape);
        self.set_in(slot.part, slot.name, value).map_err(|error| Box::new(error).into())
    }

    /// Where the elements of a tensor are in memory of the host, and how many captured tensors before it, in the order of visits, are at the same place.
    #[must_use]
    pub fn content_address(&self, slot: &TensorSlot) -> Option<(usize, usize)> {
        let address = arg(self.parts().nth(slot.part)?, slot.field)?.address;
        let before = self.parts().enumerate().take(slot.part + 1).flat_map(|(part, owner)| {
            let fields = if part == slot.part { slot.field } else { owner.desc().fields.len() };
            (0..fields).filter_map(move |field| arg(owner, field))
        });
        Some((address, before.filter(|found| found.address == address).count()))
    }
}

fn field_of(part: &dyn ErasedVariant, name: &str) -> Option<usize> {
    part.desc().fields.iter().position(|field| field.name == name)
}

/// A captured tensor as an argument.
struct Found {
    address: usize,
    shape: Vec<i64>,
    bytes: usize,
}

fn arg(part: &dyn ErasedVariant, field: usize) -> Option<Found> {
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
    part.visit_args(&mut finder);
    finder.found
}

/// Values as the rows of a tensor.
fn nested(values: &mut impl Iterator<Item = ParamValue>, shape: &[i64]) -> ParamValue {
    match shape {
        [] => values.next().unwrap_or(ParamValue::Int(0)),
        [len, inner @ ..] => ParamValue::List((0..*len).map(|_| nested(values, inner)).collect()),
    }
}
