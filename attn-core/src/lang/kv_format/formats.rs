//! The formats of the keys and of the values of an attention.

use std::fmt;
use std::hash::{Hash, Hasher};
use std::sync::{Mutex, PoisonError};

use super::{DescribedKvFormat, ErasedKvFormat, KvFormat, extents, linear_check};
use crate::lang::FieldType;
use crate::lang::params::{BindError, Dims, ParamValues};

/// The formats of keys and of values.
#[derive(Clone)]
pub struct KvFormats {
    k: Box<dyn ErasedKvFormat>,
    v: Box<dyn ErasedKvFormat>,
    /// Whether values are the first elements of keys, which the format of keys reads.
    shared: bool,
    id: KvFormatId,
}

/// Formats without their parameter tensors: what kernels and the sizes of rows depend on. Formats of equal names and
/// scalar parameters have one id.
#[derive(Clone, Copy)]
pub struct KvFormatId(&'static Interned);

struct Interned {
    k: Box<dyn ErasedKvFormat>,
    v: Box<dyn ErasedKvFormat>,
    text: String,
}

/// Bytes of a stored row.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct RowBytes {
    /// Of its codes.
    pub codes: usize,
    /// Of its side data; 0 if it has none.
    pub side: usize,
}

impl KvFormats {
    /// One format for keys and for values.
    #[must_use]
    pub fn both(format: impl KvFormat + DescribedKvFormat) -> Self {
        Self::new(format.clone(), format)
    }

    /// A format for keys and one for values.
    #[must_use]
    pub fn new(k: impl KvFormat + DescribedKvFormat, v: impl KvFormat + DescribedKvFormat) -> Self {
        Self::of(Box::new(k), Box::new(v))
    }

    /// Formats without their types.
    #[must_use]
    pub fn of(k: Box<dyn ErasedKvFormat>, v: Box<dyn ErasedKvFormat>) -> Self {
        let id = KvFormatId::of(&*k, &*v);
        KvFormats { k, v, shared: false, id }
    }

    /// The format of keys.
    #[must_use]
    pub fn keys(&self) -> &dyn ErasedKvFormat {
        &*self.k
    }

    /// The format of values.
    #[must_use]
    pub fn values(&self) -> &dyn ErasedKvFormat {
        if self.shared { &*self.k } else { &*self.v }
    }

    /// The format of keys (0) or of values.
    #[must_use]
    pub fn part(&self, part: usize) -> &dyn ErasedKvFormat {
        if part == 0 { self.keys() } else { self.values() }
    }

    /// The formats that have parameters of their own, with the prefix of their names: one if values are part of keys.
    pub(crate) fn owners(&self) -> impl ExactSizeIterator<Item = (&'static str, &dyn ErasedKvFormat)> {
        let all = [(PREFIXES[0], &*self.k), (PREFIXES[1], &*self.v)];
        all.into_iter().take(if self.shared { 1 } else { 2 })
    }

    /// Changes the parameters of the format of keys (0) or of values; `None` without such a format.
    pub(crate) fn set_values(
        &mut self,
        part: usize,
        values: &ParamValues,
    ) -> Option<Result<(), crate::lang::ParamError>> {
        let owner = match part {
            0 => &mut self.k,
            1 if !self.shared => &mut self.v,
            _ => return None,
        };
        let result = owner.set_values(values);
        self.id = KvFormatId::of(&*self.k, &*self.v);
        Some(result)
    }

    /// The formats for values that are the first elements of keys.
    pub(crate) fn shared_with_keys(self) -> Self {
        KvFormats { shared: true, ..self }
    }

    /// The formats without their parameter tensors.
    #[must_use]
    pub fn id(&self) -> KvFormatId {
        self.id
    }

    /// Whether values are the first elements of keys, so that the format of keys reads both.
    #[must_use]
    pub fn shares_keys(&self) -> bool {
        self.shared
    }

    /// Binds both to the dimensions of an attention, as [`VariantParams::bind`](crate::lang::VariantParams::bind). A
    /// format of values has their dimension as `head_dim`.
    ///
    /// # Errors
    ///
    /// A parameter that does not fit, or rows that no cache can hold.
    pub fn bind(&mut self, dims: &Dims) -> Result<(), BindError> {
        bind(&mut self.k, PREFIXES[0], dims)?;
        if self.shared { Ok(()) } else { bind(&mut self.v, PREFIXES[1], &of_values(dims)) }
    }

    /// The dimensions that the parameters of an owner are bound to.
    pub(crate) fn dims_of(part: usize, dims: &Dims) -> Dims {
        if part == 0 { *dims } else { of_values(dims) }
    }
}

/// Prefixes of the names of parameters.
const PREFIXES: [&str; 2] = ["key_format", "value_format"];

fn of_values(dims: &Dims) -> Dims {
    Dims { head_dim: dims.value_dim.or(dims.head_dim), ..*dims }
}

fn bind(format: &mut Box<dyn ErasedKvFormat>, prefix: &str, dims: &Dims) -> Result<(), BindError> {
    let in_format = |format: &dyn ErasedKvFormat, source| BindError::Part {
        variant: format!("{prefix} {}", format.desc().name),
        source: Box::new(source),
    };
    format.bind(dims).map_err(|source| in_format(&**format, source))?;
    let Some(dim) = dims.head_dim.and_then(|dim| i32::try_from(dim).ok()) else { return Ok(()) };
    let row = |why| Err(in_format(&**format, BindError::KvRow { dim, why }));
    if dim % 8 != 0 {
        return row("formats read eight elements at a time; take a multiple of 8".to_owned());
    }
    let (codes, side) = (format.code_bytes(dim), format.side_bytes(dim));
    if codes <= 0 || side < 0 {
        return row(format!("`code_bytes` is {codes} and `side_bytes` {side}; a row has at least one byte of codes"));
    }
    // before anything calls the functions
    if let Some(why) = extents::mistake(&**format, dim, dims.kv_heads) {
        return row(why);
    }
    if format.linear() != without_tensors(&**format).linear() {
        return row("`linear` is another without the tensors of the format, and kernels serve all tensors".to_owned());
    }
    if let Some(why) = format.linear().and_then(|codes| linear_check::mistake(codes, &**format, dim, dims.kv_heads)) {
        return row(why);
    }
    Ok(())
}

impl KvFormatId {
    fn of(k: &dyn ErasedKvFormat, v: &dyn ErasedKvFormat) -> Self {
        static KNOWN: Mutex<Vec<&'static Interned>> = Mutex::new(Vec::new());
        let [k, v] = [k, v].map(without_tensors);
        let (of_k, of_v) = (k.to_string(), v.to_string());
        let same = std::ptr::eq(k.desc(), v.desc()) && of_k == of_v;
        let text = if same { of_k } else { format!("{of_k} / {of_v}") };
        let mut known = KNOWN.lock().unwrap_or_else(PoisonError::into_inner);
        let is_it = |known: &&&'static Interned| {
            known.text == text && std::ptr::eq(known.k.desc(), k.desc()) && std::ptr::eq(known.v.desc(), v.desc())
        };
        if let Some(found) = known.iter().find(is_it) {
            return KvFormatId(found);
        }
        // a few bytes for each format that a program names
        let interned: &'static Interned = Box::leak(Box::new(Interned { k, v, text }));
        known.push(interned);
        KvFormatId(interned)
    }

    /// The formats, without content of their parameter tensors.
    #[must_use]
    pub fn formats(self) -> KvFormats {
        KvFormats { k: self.0.k.clone(), v: self.0.v.clone(), shared: false, id: self }
    }

    /// The format of keys (0) or of values, without content of its parameter tensors.
    #[must_use]
    pub fn part(self, part: usize) -> &'static dyn ErasedKvFormat {
        if part == 0 { &*self.0.k } else { &*self.0.v }
    }

    /// Bytes of a row of keys (0) or of values of `dim` elements, a dimension that the formats were bound to.
    #[must_use]
    pub fn row_bytes(self, part: usize, dim: u32) -> RowBytes {
        RowBytes::of(self.part(part), dim)
    }

    /// The text, as [`KvFormats::parse`] reads it.
    #[must_use]
    pub fn text(self) -> &'static str {
        &self.0.text
    }
}

impl RowBytes {
    /// Bytes of a row of `dim` elements, a dimension that the format was bound to.
    #[must_use]
    pub fn of(format: &dyn ErasedKvFormat, dim: u32) -> Self {
        let dim = i32::try_from(dim).unwrap_or(i32::MAX);
        let [codes, side] = [format.code_bytes(dim), format.side_bytes(dim)].map(|n| usize::try_from(n).unwrap_or(0));
        RowBytes { codes, side }
    }

    /// Bytes of codes and of side data.
    #[must_use]
    pub fn total(self) -> usize {
        self.codes + self.side
    }
}

/// The format with its scalar parameters alone.
fn without_tensors(format: &dyn ErasedKvFormat) -> Box<dyn ErasedKvFormat> {
    let (desc, values) = (format.desc(), format.to_values());
    let scalar = |name: &str| desc.fields.iter().any(|f| f.name == name && matches!(f.ty, FieldType::Scalar(_)));
    let scalars = ParamValues(values.0.into_iter().filter(|(name, _)| scalar(name)).collect());
    // values that a format has are accepted again; otherwise its tensors stay
    (desc.make)(desc, &scalars).unwrap_or_else(|_| format.clone_box())
}

impl PartialEq for KvFormats {
    fn eq(&self, other: &Self) -> bool {
        *self.k == *other.k && *self.v == *other.v && self.shared == other.shared
    }
}

impl PartialEq for KvFormatId {
    fn eq(&self, other: &Self) -> bool {
        std::ptr::eq(self.0, other.0)
    }
}

impl Eq for KvFormatId {}

impl Hash for KvFormatId {
    fn hash<H: Hasher>(&self, state: &mut H) {
        std::ptr::hash(self.0, state);
    }
}

/// `int8`, or `int8 / int4(group=32)`.
impl fmt::Display for KvFormatId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.text())
    }
}

impl fmt::Debug for KvFormatId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.text())
    }
}

/// The text of the [`KvFormatId`].
impl fmt::Display for KvFormats {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.id.fmt(f)
    }
}

impl fmt::Debug for KvFormats {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.id.fmt(f)
    }
}
