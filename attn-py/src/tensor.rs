//! Tensors of the caller.

use attn::ops::{Array, Number};
use attn::{Dtype, Kv, KvScales, KvSides, PageOrder, TensorMut, TensorRef, tensor::MAX_RANK};
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
            Element::I32 | Element::I64 => {
                Err(Failure::tensor(format!("{name} is of whole numbers; {}", Element::POSSIBLE)))
            }
        }
    }
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
            Some(strides) => dims.strides[..rank].copy_from_slice(strides),
            None => {
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
            "{name} has the shape {shape:?} and the strides {strides:?}; it is a line"
        )));
    };
    if view.element != element {
        return Err(Failure::tensor(format!(
            "{name} is not of {element:?}: slots are int64, positions and indices int32"
        )));
    }
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
        self.check_last(name)?;
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
        self.check_last(name)?;
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

    /// The last dimension is without gaps in all of a call's tensors, except that lse has heads there.
    fn check_last(&self, name: &str) -> Result<(), Failure> {
        let (shape, strides) = (self.dims.shape(), self.dims.strides());
        let has_gaps = name != "lse" && shape.last().is_some_and(|&length| length > 1) && strides.last() != Some(&1);
        if has_gaps {
            let remedy = format!("its last dimension has gaps; pass {name}.contiguous()");
            return Err(Failure::tensor(format!("{name} has shape {shape:?} and strides {strides:?}: {remedy}")));
        }
        Ok(())
    }

    /// The first and one past the last byte that the elements reach.
    fn bytes(&self) -> (usize, usize) {
        if self.dims.is_empty() {
            return (self.data, self.data);
        }
        let size = self.element.dtype("").map_or(8, Dtype::size);
        let last = self.dims.shape().iter().zip(self.dims.strides());
        let last = last.fold(0usize, |sum, (&n, &stride)| {
            sum.saturating_add((n - 1).saturating_mul(usize::try_from(stride).unwrap_or(0)))
        });
        (self.data, self.data.saturating_add(last.saturating_add(1).saturating_mul(size)))
    }

    /// Refuses an output in host memory that reaches into another tensor of the call.
    pub(crate) fn check_apart(&self, name: &str, others: &[(&str, &View)]) -> Result<(), Failure> {
        let own = self.bytes();
        let meets = |other: (usize, usize)| own.0 < other.1 && other.0 < own.1;
        match others.iter().find(|(_, other)| self.location == Location::Cpu && meets(other.bytes())) {
            Some((other, _)) => Err(Failure::tensor(format!("{name} shares memory with {other}"))),
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
