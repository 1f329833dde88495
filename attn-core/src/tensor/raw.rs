//! Tensors over host memory of other languages, which comes as an address.

use std::{ptr::NonNull, slice};

use super::descriptor::{TensorMut, TensorRef};
use super::error::TensorError;
use super::memory::{HostMut, Memory};
use super::shape::Shape;
use crate::dtype::Dtype;

/// The bytes that a shape reaches from an address, checked: the address, and their number.
fn reach(data: *mut u8, dtype: Dtype, shape: &Shape) -> Result<(*mut u8, usize), TensorError> {
    let (extent, size) = (shape.extent()?, dtype.size());
    if extent == 0 {
        // a slice of none has an aligned address as well
        return Ok((NonNull::<u64>::dangling().as_ptr().cast(), 0));
    }
    if data.is_null() || !data.addr().is_multiple_of(size) {
        return Err(TensorError::Address { address: data as u64, dtype, size });
    }
    // an extent is far below 2^60, so its bytes do not overflow 64 bits
    let bytes = usize::try_from(extent * size as u64).ok().filter(|&bytes| bytes <= isize::MAX as usize);
    Ok((data, bytes.ok_or_else(|| TensorError::TooLarge { shape: shape.extents().to_vec() })?))
}

impl TensorRef<'_> {
    /// A tensor at an address in host memory, for memory of other languages. Memory of Rust is a slice:
    /// [`TensorRef::host`].
    ///
    /// # Errors
    ///
    /// An address that is null or no multiple of the size of an element; the errors of [`TensorRef::device`].
    ///
    /// # Safety
    ///
    /// While the tensor lives, the memory from `data` to the last element that shape and strides reach can be read, and
    /// nothing writes there.
    pub unsafe fn host_raw(
        data: *const u8,
        dtype: Dtype,
        shape: &[usize],
        strides: &[i64],
    ) -> Result<Self, TensorError> {
        let shape = Shape::contiguous(shape)?.with_strides(strides)?;
        let (data, bytes) = reach(data.cast_mut(), dtype, &shape)?;
        // SAFETY: the caller guarantees the memory; none is read of an empty tensor.
        let bytes = unsafe { slice::from_raw_parts(data, bytes) };
        Ok(TensorRef { memory: Memory::Host(bytes), dtype, shape })
    }
}

impl TensorMut<'_> {
    /// A tensor to write at an address, like [`TensorRef::host_raw`].
    ///
    /// # Errors
    ///
    /// The errors of [`TensorRef::host_raw`].
    ///
    /// # Safety
    ///
    /// Nothing else reads or writes the elements; what lies between them may be elements of other tensors. The
    /// conditions of [`TensorRef::host_raw`].
    pub unsafe fn host_raw(data: *mut u8, dtype: Dtype, shape: &[usize], strides: &[i64]) -> Result<Self, TensorError> {
        let shape = Shape::contiguous(shape)?.with_strides(strides)?;
        let (data, bytes) = reach(data, dtype, &shape)?;
        // SAFETY: the caller guarantees the memory, and that its elements are nobody else's.
        let bytes = unsafe { HostMut::raw(data, bytes) };
        Ok(TensorMut { memory: Memory::Host(bytes), dtype, shape })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_are_checked_and_strides_kept() {
        let data: Vec<f32> = (0..12u8).map(f32::from).collect();
        let at = data.as_ptr().cast::<u8>();
        // SAFETY: 12 elements from `at` on, of which nothing past the last is reached.
        let every_other = unsafe { TensorRef::host_raw(at, Dtype::F32, &[2, 3], &[6, 2]) }.expect("it fits");
        assert_eq!(every_other.host_bytes().map(<[u8]>::len), Some(4 * (6 + 4 + 1)));
        assert_eq!(every_other.strides(), [6, 2]);
        // SAFETY: refused before anything is read.
        let odd = unsafe { TensorRef::host_raw(at.wrapping_add(2), Dtype::F32, &[2], &[1]) }.expect_err("odd");
        assert!(matches!(odd, TensorError::Address { size: 4, .. }), "{odd}");
        // SAFETY: as above.
        let null = unsafe { TensorMut::host_raw(std::ptr::null_mut(), Dtype::F16, &[1], &[1]) }.expect_err("null");
        assert!(matches!(null, TensorError::Address { address: 0, .. }), "{null}");
        // SAFETY: it has no elements.
        let none = unsafe { TensorRef::host_raw(std::ptr::null(), Dtype::F32, &[0, 3], &[3, 1]) }.expect("none");
        assert_eq!(none.as_host::<f32>(), Some(&[][..]));
        // SAFETY: refused before anything is read.
        unsafe { TensorRef::host_raw(at, Dtype::F32, &[2], &[-1]) }.expect_err("a negative stride");
    }
}
