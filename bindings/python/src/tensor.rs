//! Tensors of the caller.

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
    /// Nothing else reads the elements; the conditions of [`View::read`].
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
