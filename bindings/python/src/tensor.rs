//! Tensors of the caller.

use attn::ops::{Array, ArrayMut, Number};
use attn::{TensorMut, TensorRef};
use attn_core::tensor::Reach;

use crate::{dims::Dims, dlpack::lent::Lent, element::Element, error::Failure, location::Location};

/// A tensor of the caller. Its memory stays while the caller's object, and what its producer lent, stay.
pub(crate) struct View {
    pub(crate) data: usize,
    pub(crate) element: Element,
    pub(crate) location: Location,
    pub(crate) dims: Dims,
    pub(crate) read_only: bool,
    /// What the producer lent, until this is dropped.
    pub(crate) _owner: Option<Lent>,
}

impl View {
    /// Refuses a tensor of another device.
    pub(crate) fn on(self, location: Location, name: &str) -> Result<Self, Failure> {
        let View { location: own, .. } = self;
        if own == location {
            return Ok(self);
        }
        Err(Failure::tensor(format!("{name} is on {own}, and the call on {location}; take all of one device")))
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
    /// Nothing else reads the elements; the conditions of [`View::read`].
    pub(crate) unsafe fn write<'a>(&self, name: &str) -> Result<TensorMut<'a>, Failure> {
        let (dtype, dims) = (self.element.dtype(name)?, &self.dims);
        self.check_strides(name)?;
        self.check_aligned(name)?;
        self.check_writable(name)?;
        // SAFETY: as in `read`
        Ok(unsafe {
            match self.location {
                Location::Cpu => TensorMut::host_raw(self.data as *mut u8, dtype, dims.shape(), dims.strides()),
                Location::Cuda(_) => TensorMut::device(self.data as u64, dtype, dims.shape(), dims.strides()),
            }
        }?)
    }

    /// The first elements in host memory; of none an address is not read.
    ///
    /// # Safety
    ///
    /// There are `count` elements of `T` one after the other, which nothing writes while the result lives.
    pub(crate) unsafe fn host<'a, T>(&self, count: usize) -> &'a [T] {
        // SAFETY: the caller guarantees it
        if count == 0 { &[] } else { unsafe { std::slice::from_raw_parts(self.data as *const T, count) } }
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
        let has_gaps =
            !name.contains("lse") && shape.last().is_some_and(|&length| length > 1) && strides.last() != Some(&1);
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
}

/// A tensor of a call by its name; `None` for one that is not given.
pub(crate) type Named<'a> = (&'a str, Option<&'a View>);

/// Refuses outputs that share memory with each other or with another tensor of the call: the library does as well, and
/// has other names for both.
pub(crate) fn check_apart(outputs: &[Named<'_>], inputs: &[Named<'_>]) -> Result<(), Failure> {
    for (i, (name, output)) in outputs.iter().enumerate() {
        let Some(output) = output else { continue };
        let mut others = inputs.iter().chain(&outputs[i + 1..]);
        let shares = |view: Option<&View>| view.is_some_and(|view| output.reach().shares(&view.reach()));
        if let Some((other, _)) = others.find(|(_, view)| shares(*view)) {
            return Err(Failure::tensor(format!("{name} shares memory with {other}; give it memory of its own")));
        }
    }
    Ok(())
}

/// Any length, in the shape of an array.
pub(crate) const ANY: usize = usize::MAX;

impl View {
    /// The number of elements of an array that is one of these types and has a shape, without gaps.
    pub(crate) fn count(&self, of: &[Element], shape: &[usize], name: &str) -> Result<usize, Failure> {
        let (own, strides) = (self.dims.shape(), self.dims.strides());
        let fits = |(own, want): (&usize, &usize)| own == want || *want == ANY;
        if own.len() != shape.len() || !own.iter().zip(shape).all(fits) {
            let want = shape.iter().map(|&n| if n == ANY { "any".to_owned() } else { n.to_string() });
            let want = want.collect::<Vec<_>>().join(", ");
            let want = if shape.iter().all(|&n| n == ANY) {
                format!("{} dimensions", shape.len())
            } else {
                format!("[{want}]")
            };
            return Err(Failure::tensor(format!("{name} has the shape {own:?}; it has {want}")));
        }
        if !self.dims.is_row_major() {
            let remedy = "it has no gaps: pass a copy";
            return Err(Failure::tensor(format!("{name} has the shape {own:?} and the strides {strides:?}; {remedy}")));
        }
        if !of.contains(&self.element) {
            let want: Vec<_> = of.iter().map(|element| element.name()).collect();
            let (own, want) = (self.element.name(), want.join(" or "));
            return Err(Failure::tensor(format!("{name} is of {own}; it is of {want}")));
        }
        self.check_aligned(name)?;
        self.dims.count().ok_or_else(|| Failure::tensor(format!("{name} has the shape {own:?}")))
    }

    /// Refuses memory that cannot be written.
    pub(crate) fn check_writable(&self, name: &str) -> Result<(), Failure> {
        let refused = || Failure::tensor(format!("{name} is read-only, and the call writes to it"));
        if self.read_only { Err(refused()) } else { Ok(()) }
    }
}

/// So many entries from the first element on.
///
/// # Safety
///
/// The view has them; nothing writes them while the result lives, or, on a device, until the work of the call is done.
pub(crate) unsafe fn entries<'a, T: Number>(view: &View, count: usize) -> Array<'a, T> {
    match view.location {
        // SAFETY: the caller guarantees the entries
        Location::Cuda(_) => unsafe { Array::device(view.data as u64, count) },
        // SAFETY: the caller guarantees the entries
        Location::Cpu => Array::host(unsafe { view.host(count) }),
    }
}

/// So many entries from the first element on, to be written.
///
/// # Safety
///
/// Nothing else reads or writes them; the conditions of [`entries`].
pub(crate) unsafe fn entries_mut<'a, T: Number>(view: &View, count: usize) -> ArrayMut<'a, T> {
    match view.location {
        // SAFETY: the caller guarantees the entries
        Location::Cuda(_) => unsafe { ArrayMut::device(view.data as u64, count) },
        Location::Cpu if count == 0 => ArrayMut::host(&mut []),
        // SAFETY: the caller guarantees the entries
        Location::Cpu => ArrayMut::host(unsafe { std::slice::from_raw_parts_mut(view.data as *mut T, count) }),
    }
}
