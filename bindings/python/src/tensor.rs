//! Tensors of the caller.

use attn::ops::{Array, Number};
use attn::{Dtype, Kv, KvScales, KvSides, PageOrder, TensorMut, TensorRef};
use attn_core::tensor::{MAX_RANK, Reach};
use pyo3::{prelude::*, types::PyTuple};

use crate::{dlpack, engine::Location, error::Failure, torch};

/// The types of elements.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Element {
    F16,
    Bf16,
    F32,
    E4m3,
    E5m2,
    U8,
    U16,
    U32,
    U64,
    I8,
    I16,
    I32,
    I64,
}

impl Element {
    pub(crate) const POSSIBLE: &'static str = "queries and outputs are float16, bfloat16 or float32, keys and values \
        also float8_e4m3fn, float8_e5m2, or uint8 with a `kv_format`";

    pub(crate) fn dtype(self, name: &str) -> Result<Dtype, Failure> {
        match self {
            Element::F16 => Ok(Dtype::F16),
            Element::Bf16 => Ok(Dtype::Bf16),
            Element::F32 => Ok(Dtype::F32),
            Element::E4m3 => Ok(Dtype::E4m3),
            Element::E5m2 => Ok(Dtype::E5m2),
            Element::U8 => Ok(Dtype::U8),
            Element::U16 | Element::U32 | Element::U64 | Element::I8 | Element::I16 | Element::I32 | Element::I64 => {
                Err(Failure::tensor(format!("{name} is of {}, whole numbers; {}", self.name(), Element::POSSIBLE)))
            }
        }
    }

    /// Bytes of an element.
    pub(crate) fn size(self) -> usize {
        match self {
            Element::E4m3 | Element::E5m2 | Element::U8 | Element::I8 => 1,
            Element::F16 | Element::Bf16 | Element::U16 | Element::I16 => 2,
            Element::F32 | Element::U32 | Element::I32 => 4,
            Element::U64 | Element::I64 => 8,
        }
    }

    /// Its name in numpy and torch.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Element::F16 => "float16",
            Element::Bf16 => "bfloat16",
            Element::F32 => "float32",
            Element::E4m3 => "float8_e4m3fn",
            Element::E5m2 => "float8_e5m2",
            Element::U8 => "uint8",
            Element::U16 => "uint16",
            Element::U32 => "uint32",
            Element::U64 => "uint64",
            Element::I8 => "int8",
            Element::I16 => "int16",
            Element::I32 => "int32",
            Element::I64 => "int64",
        }
    }

    /// All of them, by their names.
    pub(crate) const ALL: [Element; 13] = [
        Element::F16,
        Element::Bf16,
        Element::F32,
        Element::E4m3,
        Element::E5m2,
        Element::U8,
        Element::U16,
        Element::U32,
        Element::U64,
        Element::I8,
        Element::I16,
        Element::I32,
        Element::I64,
    ];
}

/// Lengths and strides, in elements.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Dims {
    rank: usize,
    shape: [usize; MAX_RANK],
    strides: [i64; MAX_RANK],
}

impl Dims {
    /// Of slices; without strides it is row-major.
    pub(crate) fn new(shape: &[i64], strides: Option<&[i64]>, name: &str) -> Result<Self, Failure> {
        let rank = shape.len();
        if rank > MAX_RANK {
            return Err(Failure::tensor(format!("{name} has {rank} dimensions; there may be {MAX_RANK}")));
        }
        let mut dims = Dims { rank, shape: [0; MAX_RANK], strides: [0; MAX_RANK] };
        for (to, &length) in dims.shape.iter_mut().zip(shape) {
            let length = usize::try_from(length);
            *to = length.map_err(|_| Failure::tensor(format!("{name} has the shape {shape:?}")))?;
        }
        match strides {
            // of no elements numpy and others have any strides, 0 among them
            Some(strides) if !dims.is_empty() => dims.strides[..rank].copy_from_slice(strides),
            _ => {
                let mut next = 1i64;
                for i in (0..rank).rev() {
                    dims.strides[i] = next;
                    next = next.saturating_mul(shape[i].max(1));
                }
            }
        }
        Ok(dims)
    }

    /// Of the tuples that torch gives.
    pub(crate) fn read(shape: &Bound<'_, PyTuple>, strides: &Bound<'_, PyTuple>, name: &str) -> Result<Self, Failure> {
        let rank = shape.len();
        let mut read = [[0i64; MAX_RANK]; 2];
        if rank > MAX_RANK || strides.len() != rank {
            return Err(Failure::tensor(format!("{name} has {rank} dimensions; there may be {MAX_RANK}")));
        }
        for (to, tuple) in read.iter_mut().zip([shape, strides]) {
            for (i, to) in to[..rank].iter_mut().enumerate() {
                *to = tuple.get_borrowed_item(i)?.extract()?;
            }
        }
        Dims::new(&read[0][..rank], Some(&read[1][..rank]), name)
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.shape().contains(&0)
    }

    /// Whether the elements are one after the other.
    pub(crate) fn is_row_major(&self) -> bool {
        let mut next = 1i64;
        self.shape().iter().zip(self.strides()).rev().all(|(&length, &stride)| {
            let fits = length <= 1 || stride == next;
            next = next.saturating_mul(length as i64);
            fits
        })
    }

    /// Elements; `None` for more than there are addresses.
    pub(crate) fn count(&self) -> Option<usize> {
        if self.is_empty() {
            return Some(0);
        }
        self.shape().iter().try_fold(1usize, |count, &length| count.checked_mul(length))
    }

    pub(crate) fn shape(&self) -> &[usize] {
        &self.shape[..self.rank]
    }

    pub(crate) fn strides(&self) -> &[i64] {
        &self.strides[..self.rank]
    }
}

/// A tensor of the caller. Its memory stays while the caller's object, and what its producer lent, stay.
pub(crate) struct View {
    pub(crate) data: usize,
    pub(crate) element: Element,
    pub(crate) location: Location,
    pub(crate) dims: Dims,
    pub(crate) read_only: bool,
    /// What the producer lent, until this is dropped.
    pub(crate) _owner: Option<dlpack::Lent>,
}

/// A tensor, wherever it is.
pub(crate) fn view(object: &Bound<'_, PyAny>, name: &str, stream: Option<usize>) -> Result<View, Failure> {
    if let Some(view) = torch::view(object, name)? {
        return Ok(view);
    }
    if let Some(view) = dlpack::view(object, name, stream)? {
        return Ok(view);
    }
    let class = object.get_type().name()?.to_string();
    Err(Failure::tensor(format!("{name} is a {class}; it must be a tensor of torch, or one that has `__dlpack__`")))
}

/// The entries of an array of a call.
///
/// # Safety
///
/// Nothing writes the entries while the result lives, or, on a device, until the work of the call is done.
pub(crate) unsafe fn array<'a, T: Number>(view: &View, element: Element, name: &str) -> Result<Array<'a, T>, Failure> {
    let (shape, strides) = (view.dims.shape(), view.dims.strides());
    let (&[count], true) = (shape, view.dims.is_row_major()) else {
        return Err(Failure::tensor(format!(
            "{name} has the shape {shape:?} and the strides {strides:?}; it has one dimension, without gaps: \
             pass a copy"
        )));
    };
    if view.element != element {
        let (own, want) = (view.element.name(), element.name());
        return Err(Failure::tensor(format!("{name} is of {own}; it is of {want}")));
    }
    view.check_aligned(name)?;
    Ok(match view.location {
        // SAFETY: the caller guarantees the entries
        Location::Cuda(_) => unsafe { Array::device(view.data as u64, count) },
        Location::Cpu if count == 0 => Array::host(&[]),
        // SAFETY: the caller guarantees the entries
        Location::Cpu => Array::host(unsafe { std::slice::from_raw_parts(view.data as *const T, count) }),
    })
}

/// Where a tensor is.
pub(crate) fn location(object: &Bound<'_, PyAny>, name: &str) -> Result<Location, Failure> {
    match torch::view(object, name)? {
        Some(view) => Ok(view.location),
        None if object.hasattr("__dlpack__")? => dlpack::location(object, name),
        None => Ok(view(object, name, None)?.location),
    }
}

impl View {
    /// Refuses a tensor of another device.
    pub(crate) fn on(self, location: Location, name: &str) -> Result<Self, Failure> {
        let View { location: own, .. } = self;
        if own == location {
            return Ok(self);
        }
        Err(Failure::tensor(format!("{name} is on {own}, and the attention on {location}; take all of one device")))
    }

    /// The tensor to read.
    ///
    /// # Safety
    ///
    /// Nothing writes its elements while the result lives, or, on a device, until the work of the call is done.
    pub(crate) unsafe fn read<'a>(&self, name: &str) -> Result<TensorRef<'a>, Failure> {
        let (dtype, dims) = (self.element.dtype(name)?, &self.dims);
        self.check_strides(name)?;
        self.check_aligned(name)?;
        // SAFETY: the object is a tensor of these dimensions, which the caller of Python keeps during the call
        Ok(unsafe {
            match self.location {
                Location::Cpu => TensorRef::host_raw(self.data as *const u8, dtype, dims.shape(), dims.strides()),
                Location::Cuda(_) => TensorRef::device(self.data as u64, dtype, dims.shape(), dims.strides()),
            }
        }?)
    }

    /// The tensor to write.
    ///
    /// # Safety
    ///
    /// As [`View::read`], and nothing else reads the elements either.
    pub(crate) unsafe fn write<'a>(&self, name: &str) -> Result<TensorMut<'a>, Failure> {
        let (dtype, dims) = (self.element.dtype(name)?, &self.dims);
        self.check_strides(name)?;
        self.check_aligned(name)?;
        if self.read_only {
            return Err(Failure::tensor(format!("{name} is read-only, and the call writes to it")));
        }
        // SAFETY: as in `read`
        Ok(unsafe {
            match self.location {
                Location::Cpu => TensorMut::host_raw(self.data as *mut u8, dtype, dims.shape(), dims.strides()),
                Location::Cuda(_) => TensorMut::device(self.data as u64, dtype, dims.shape(), dims.strides()),
            }
        }?)
    }

    /// No dimension runs backwards, and the last one is without gaps in all of a call's tensors, except that lse has
    /// heads there.
    fn check_strides(&self, name: &str) -> Result<(), Failure> {
        let (shape, strides) = (self.dims.shape(), self.dims.strides());
        if let Some(at) = strides.iter().position(|&stride| stride < 0) {
            let stride = strides[at];
            let remedy = "it is 0 or more: pass a copy";
            return Err(Failure::tensor(format!("{name} has the stride {stride} in dimension {at}; {remedy}")));
        }
        let has_gaps = name != "lse" && shape.last().is_some_and(|&length| length > 1) && strides.last() != Some(&1);
        if has_gaps {
            let remedy = format!("its last dimension has gaps; pass {name}.contiguous()");
            return Err(Failure::tensor(format!("{name} has shape {shape:?} and strides {strides:?}: {remedy}")));
        }
        Ok(())
    }

    /// Refuses elements between the addresses that elements have.
    pub(crate) fn check_aligned(&self, name: &str) -> Result<(), Failure> {
        let (at, size) = (self.data, self.element.size());
        if self.dims.is_empty() || at.is_multiple_of(size) {
            return Ok(());
        }
        let of = self.element.name();
        Err(Failure::tensor(format!("{name} is at {at:#x}, no multiple of {size}, the size of {of}: pass a copy")))
    }

    /// The bytes of the elements. Negative strides are refused elsewhere.
    fn reach(&self) -> Reach<'_> {
        let (shape, strides) = (self.dims.shape(), self.dims.strides());
        Reach::new(self.location != Location::Cpu, self.data as u64, self.element.size(), shape, strides)
    }

    /// Refuses an output that shares memory with another tensor of the call: the library does as well, and has other
    /// names for both.
    pub(crate) fn check_apart(&self, name: &str, others: &[(&str, &View)]) -> Result<(), Failure> {
        match others.iter().find(|(_, other)| self.reach().shares(&other.reach())) {
            Some((other, _)) => {
                Err(Failure::tensor(format!("{name} shares memory with {other}; give it memory of its own")))
            }
            None => Ok(()),
        }
    }
}

/// How keys and values lie in memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum KvLayout {
    /// (tokens, KV heads, head dim), or pages of (slots, KV heads, head dim).
    Nhd,
    /// Pages of (KV heads, slots, head dim).
    Hnd,
    /// One pool of pages, each of which has keys and then values.
    Fused(PageOrder),
    /// One tensor, whose first elements are the values.
    Latent,
}

impl KvLayout {
    pub(crate) fn parse(text: &str) -> Result<Self, Failure> {
        Ok(match text {
            "NHD" => KvLayout::Nhd,
            "HND" => KvLayout::Hnd,
            "fused NHD" => KvLayout::Fused(PageOrder::Nhd),
            "fused HND" => KvLayout::Fused(PageOrder::Hnd),
            "latent" => KvLayout::Latent,
            _ => {
                let known = "`NHD`, `HND`, `fused NHD`, `fused HND`, `latent`";
                return Err(Failure::argument(format!("kv_layout is `{text}`; there are {known}")));
            }
        })
    }

    /// Whether values have a tensor of their own.
    pub(crate) fn has_values(self) -> bool {
        matches!(self, KvLayout::Nhd | KvLayout::Hnd)
    }

    /// The side data of keys and of values, which a fused pool has in one.
    pub(crate) fn sides<'a>(self, k: Option<TensorRef<'a>>, v: Option<TensorRef<'a>>) -> Result<KvSides<'a>, Failure> {
        Ok(match (self, k) {
            (KvLayout::Hnd, k) => KvSides::paged_in(k, v, PageOrder::Hnd)?,
            (KvLayout::Fused(order), Some(pool)) => KvSides::fused(pool, order)?,
            (_, k) => KvSides::new(k, v),
        })
    }

    pub(crate) fn kv<'a>(
        self,
        k: TensorRef<'a>,
        v: Option<TensorRef<'a>>,
        scales: KvScales<'a>,
    ) -> Result<Kv<'a>, Failure> {
        let kv = match (self, v) {
            (KvLayout::Nhd, Some(v)) => Kv::ragged(k, v),
            (KvLayout::Hnd, Some(v)) => Kv::paged_in(k, v, PageOrder::Hnd)?,
            (KvLayout::Fused(order), None) => Kv::paged_fused(k, order)?,
            (KvLayout::Latent, None) => Kv::latent(k),
            (_, None) => return Err(Failure::tensor("v is None; in this layout values have a tensor of their own")),
            (_, Some(_)) => return Err(Failure::tensor("v is given; in this layout values are in k, and v is None")),
        };
        Ok(kv.with_scales(scales))
    }
}
