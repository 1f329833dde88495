//! The arrays of a call: what it writes shares no memory with anything else that it is given.

use attn::TensorError;
use attn::ops::{Array, ArrayMut, Number};
use attn::sampling::PerRow;
use attn_core::tensor::Reach;

use crate::memory::{Memory, numbers, numbers_mut};
use crate::status::Failure;

/// A parameter of rows: a value for all, or an array with one for each.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct AttnPerRow<T> {
    /// A value a row, in memory of the device; null where all rows have `value`. A captured call reads it again at each
    /// replay.
    pub array: *const T,
    /// The value of all rows; 0 beside an array.
    pub value: T,
}

/// The arrays and tensors that a call was given so far.
pub(crate) struct Arrays<'a> {
    memory: &'a Memory,
    given: Vec<Given<'a>>,
}

struct Given<'a> {
    name: &'static str,
    reach: Reach<'a>,
    is_written: bool,
}

impl<'a> Arrays<'a> {
    pub(crate) fn new(memory: &'a Memory) -> Self {
        Arrays { memory, given: Vec::with_capacity(16) }
    }

    /// Adds a tensor or an array; refuses what is written and shares memory with another.
    pub(crate) fn add(&mut self, name: &'static str, reach: Reach<'a>, is_written: bool) -> Result<(), Failure> {
        let shares = |other: &&Given<'_>| (is_written || other.is_written) && other.reach.shares(&reach);
        if let Some(other) = self.given.iter().find(shares) {
            let (tensor, other) = if is_written { (name, other.name) } else { (other.name, name) };
            return Err(TensorError::Shared { tensor, other }.into());
        }
        self.given.push(Given { name, reach, is_written });
        Ok(())
    }

    /// The bytes of an array of the caller, of which nothing is read.
    fn add_array<T>(&mut self, at: *const T, len: usize, name: &'static str, is_written: bool) -> Result<(), Failure> {
        self.memory.check_array(at, len, name)?;
        let reach = Reach::new(!self.memory.is_host(), at as u64, len * size_of::<T>(), &[1], &[1]);
        self.add(name, reach, is_written)
    }

    /// An array to read.
    ///
    /// # Safety
    ///
    /// The pointer is null, or that of `len` entries, which live until the work that reads them is done.
    pub(crate) unsafe fn read<'t, T: Number>(
        &mut self,
        from: *const T,
        len: usize,
        name: &'static str,
    ) -> Result<Array<'t, T>, Failure> {
        self.add_array(from, len, name, false)?;
        // SAFETY: the caller guarantees it.
        unsafe { numbers(from, len, self.memory, name) }
    }

    /// An array to write.
    ///
    /// # Safety
    ///
    /// The conditions of [`Arrays::read`]; nothing but this call uses the entries.
    pub(crate) unsafe fn write<'t, T: Number>(
        &mut self,
        to: *mut T,
        len: usize,
        name: &'static str,
    ) -> Result<ArrayMut<'t, T>, Failure> {
        self.add_array(to, len, name, true)?;
        // SAFETY: the caller guarantees it, and nothing else that the call was given shares the entries.
        unsafe { numbers_mut(to, len, self.memory, name) }
    }

    /// A parameter of rows, where a value of 0 stands for `zero`.
    ///
    /// # Safety
    ///
    /// The conditions of [`Arrays::read`].
    pub(crate) unsafe fn per_row<'t, T: Number + Default + PartialEq>(
        &mut self,
        of: AttnPerRow<T>,
        rows: usize,
        zero: T,
        name: &'static str,
    ) -> Result<PerRow<'t, T>, Failure> {
        let is_zero = of.value == T::default();
        match (of.array.is_null(), is_zero) {
            (true, _) => Ok(PerRow::All(if is_zero { zero } else { of.value })),
            // SAFETY: the caller guarantees it.
            (false, true) => Ok(PerRow::Rows(unsafe { self.read(of.array, rows, name) }?)),
            (false, false) => {
                Err(Failure::argument(format!("{name} has a value and an array: leave one of them zero")))
            }
        }
    }
}
