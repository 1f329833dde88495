//! Descriptors of tensors that are read and written.

use std::ops::Range;

use super::element::Element;
use super::error::TensorError;
use super::memory::{DeviceMemory, DevicePtr, HostMut, Memory};
use super::overlap::Reach;
use super::shape::Shape;
use crate::dtype::Dtype;

/// A tensor that is read, in host or device memory.
#[derive(Clone, Copy, Debug)]
pub struct TensorRef<'a> {
    pub(super) memory: Memory<'a, &'a [u8]>,
    pub(super) dtype: Dtype,
    pub(super) shape: Shape,
}

/// A tensor that is written, in host or device memory.
#[derive(Debug)]
pub struct TensorMut<'a> {
    pub(super) memory: Memory<'a, HostMut<'a>>,
    pub(super) dtype: Dtype,
    pub(super) shape: Shape,
}

impl<'a> TensorRef<'a> {
    /// A contiguous row-major tensor in host memory.
    ///
    /// # Errors
    ///
    /// A rank of 0 or past [`MAX_RANK`](super::MAX_RANK), or a slice shorter than the shape.
    pub fn host<T: Element>(data: &'a [T], shape: &[usize]) -> Result<Self, TensorError> {
        let shape = Shape::contiguous(shape)?;
        shape.check_extent(data.len())?;
        Ok(TensorRef { memory: Memory::Host(bytemuck::cast_slice(data)), dtype: T::DTYPE, shape })
    }

    /// A contiguous row-major tensor of bytes in host memory: stored rows of keys or of values in a
    /// [`KvFormat`](crate::lang::KvFormat).
    ///
    /// # Errors
    ///
    /// The errors of [`TensorRef::host`].
    pub fn bytes(data: &'a [u8], shape: &[usize]) -> Result<Self, TensorError> {
        Self::of_bytes(Dtype::U8, data, shape)
    }

    /// A contiguous row-major tensor over the bytes of its elements, in host memory.
    ///
    /// # Errors
    ///
    /// Bytes at an address that is no multiple of the size of an element; the errors of [`TensorRef::host`].
    pub fn of_bytes(dtype: Dtype, data: &'a [u8], shape: &[usize]) -> Result<Self, TensorError> {
        let shape = Shape::contiguous(shape)?;
        shape.check_extent(elements_at(dtype, data)?)?;
        Ok(TensorRef { memory: Memory::Host(data), dtype, shape })
    }

    /// The same memory seen through other strides (in elements). The shape stays.
    ///
    /// In device memory the result has no element that this tensor has not: its maker promised those alone. So a tensor
    /// without gaps takes all strides within its extent, and a tensor with gaps only its own strides and 0.
    ///
    /// # Errors
    ///
    /// Strides of another rank, a negative stride, extents out of the slice; in device memory, strides that reach other
    /// elements ([`TensorError::Gaps`]).
    pub fn with_strides(self, strides: &[i64]) -> Result<Self, TensorError> {
        let shape = self.shape.with_strides(strides)?;
        match self.memory {
            Memory::Host(bytes) => shape.check_extent(bytes.len() / self.dtype.size())?,
            Memory::Device(_) => self.shape.check_reach(&shape)?,
        }
        Ok(TensorRef { shape, ..self })
    }

    /// Whether both tensors have the same address, dtype, strides and extents, except for the last extent.
    #[must_use]
    pub fn is_rows_of(&self, other: &TensorRef<'_>) -> bool {
        let address = |tensor: &TensorRef<'_>| match tensor.memory {
            Memory::Host(bytes) => (true, bytes.as_ptr() as u64),
            Memory::Device(ptr) => (false, ptr.address),
        };
        let outer = |tensor: &TensorRef<'_>| tensor.shape().split_last().map(|(_, outer)| outer.to_vec());
        address(self) == address(other)
            && self.dtype == other.dtype
            && outer(self) == outer(other)
            && self.strides() == other.strides()
    }

    /// The bytes of the elements, if they are in host memory: from the first on.
    pub(crate) fn host_bytes(&self) -> Option<&'a [u8]> {
        match self.memory {
            Memory::Host(bytes) => Some(bytes),
            Memory::Device(_) => None,
        }
    }

    /// The elements, if they are in host memory and of type `T`: from the first on, by strides.
    #[must_use]
    pub fn as_host<T: Element>(&self) -> Option<&'a [T]> {
        match self.memory {
            Memory::Host(bytes) if self.dtype == T::DTYPE => bytemuck::try_cast_slice(bytes).ok(),
            _ => None,
        }
    }
}

impl<'a> TensorMut<'a> {
    /// A contiguous row-major tensor in host memory.
    ///
    /// # Errors
    ///
    /// The errors of [`TensorRef::host`].
    pub fn host<T: Element>(data: &'a mut [T], shape: &[usize]) -> Result<Self, TensorError> {
        let shape = Shape::contiguous(shape)?;
        shape.check_extent(data.len())?;
        Ok(TensorMut { memory: Memory::Host(HostMut::new(bytemuck::cast_slice_mut(data))), dtype: T::DTYPE, shape })
    }

    /// A contiguous row-major tensor of bytes in host memory, as [`TensorRef::bytes`].
    ///
    /// # Errors
    ///
    /// The errors of [`TensorRef::host`].
    pub fn bytes(data: &'a mut [u8], shape: &[usize]) -> Result<Self, TensorError> {
        Self::of_bytes(Dtype::U8, data, shape)
    }

    /// A contiguous row-major tensor over the bytes of its elements, as [`TensorRef::of_bytes`].
    ///
    /// # Errors
    ///
    /// The errors of [`TensorRef::of_bytes`].
    pub fn of_bytes(dtype: Dtype, data: &'a mut [u8], shape: &[usize]) -> Result<Self, TensorError> {
        let shape = Shape::contiguous(shape)?;
        shape.check_extent(elements_at(dtype, data)?)?;
        Ok(TensorMut { memory: Memory::Host(HostMut::new(data)), dtype, shape })
    }

    /// With other strides, like [`TensorRef::with_strides`].
    ///
    /// # Errors
    ///
    /// The errors of [`TensorRef::with_strides`].
    pub fn with_strides(self, strides: &[i64]) -> Result<Self, TensorError> {
        let shape = self.as_ref().with_strides(strides)?.shape;
        Ok(TensorMut { shape, ..self })
    }

    /// The bytes of the elements, if they are in host memory: from the first on.
    pub(crate) fn host_bytes_mut(&mut self) -> Option<&mut [u8]> {
        match &mut self.memory {
            Memory::Host(bytes) => Some(bytes),
            Memory::Device(_) => None,
        }
    }

    /// The bytes of `count` adjacent elements from an index on, if they are in host memory. Nothing else is borrowed.
    /// An index may leave out inner dimensions.
    pub(crate) fn host_row_mut(&mut self, at: &[usize], count: usize) -> Option<&mut [u8]> {
        let first: usize = self.strides().iter().zip(at).map(|(&stride, &i)| stride as usize * i).sum();
        let size = self.dtype.size();
        match &mut self.memory {
            Memory::Host(_) if count == 0 => Some(&mut []),
            Memory::Host(bytes) => Some(bytes.range(first * size, count * size)),
            Memory::Device(_) => None,
        }
    }

    /// The tensor as one that is read.
    #[must_use]
    pub fn as_ref(&self) -> TensorRef<'_> {
        let memory = match &self.memory {
            Memory::Host(bytes) => Memory::Host(&**bytes),
            Memory::Device(ptr) => Memory::Device(*ptr),
        };
        TensorRef { memory, dtype: self.dtype, shape: self.shape }
    }

    /// The tensor with a shorter lifetime.
    #[must_use]
    pub fn reborrow(&mut self) -> TensorMut<'_> {
        let memory = match &mut self.memory {
            Memory::Host(bytes) => Memory::Host(bytes.reborrow()),
            Memory::Device(ptr) => Memory::Device(*ptr),
        };
        TensorMut { memory, dtype: self.dtype, shape: self.shape }
    }

    /// The elements, if they are in host memory and of type `T`.
    #[must_use]
    pub fn as_host_mut<T: Element>(&mut self) -> Option<&mut [T]> {
        match &mut self.memory {
            Memory::Host(bytes) if self.dtype == T::DTYPE => bytemuck::try_cast_slice_mut(bytes).ok(),
            _ => None,
        }
    }
}

/// How many elements the bytes hold, which begin at an address that elements may have.
fn elements_at(dtype: Dtype, data: &[u8]) -> Result<usize, TensorError> {
    let (address, size) = (data.as_ptr().addr(), dtype.size());
    if data.is_empty() || address.is_multiple_of(size) {
        return Ok(data.len() / size);
    }
    Err(TensorError::Address { address: address as u64, dtype, size })
}

macro_rules! descriptor {
    ($($tensor:ident),*) => {$(
        impl<'a> $tensor<'a> {
            /// A tensor behind a device pointer.
            ///
            /// # Errors
            ///
            /// A rank of 0 or past [`MAX_RANK`](super::MAX_RANK), strides of another rank, a negative stride, extents
            /// past 63 bits.
            ///
            /// # Safety
            ///
            /// Until every run that was given this tensor has finished, `ptr` points to memory that the device of these
            /// runs can access. It holds, in elements of `dtype`, each offset `sum(index[i] * strides[i])` with
            /// `index[i] < shape[i]`. Nothing else writes there, and nothing else reads what is written.
            pub unsafe fn device(
                ptr: u64,
                dtype: Dtype,
                shape: &[usize],
                strides: &[i64],
            ) -> Result<Self, TensorError> {
                let shape = Shape::contiguous(shape)?.with_strides(strides)?;
                shape.extent()?;
                Ok($tensor { memory: Memory::Device(DevicePtr::new(ptr)), dtype, shape })
            }
            /// The same tensor with the owner of its memory. A run on another device is then refused, and where the
            /// owner is a buffer of this library, a run is ordered with the work of other streams on it. Nothing
            /// changes in host memory, nor for a tensor that has an owner already: the first one stays.
            #[must_use]
            pub fn owned_by(self, owner: &'a dyn DeviceMemory) -> Self {
                $tensor { memory: self.memory.owned_by(owner), ..self }
            }
            /// A contiguous tensor over the first of `len` elements behind a device pointer.
            ///
            /// # Errors
            ///
            /// A shape of more elements than `len`; otherwise as [`TensorRef::device`].
            ///
            /// # Safety
            ///
            /// The memory has `len` elements; the conditions of [`TensorRef::device`].
            pub unsafe fn device_slice(
                ptr: u64,
                dtype: Dtype,
                len: usize,
                shape: &[usize],
            ) -> Result<Self, TensorError> {
                let shape = Shape::contiguous(shape)?;
                shape.check_extent(len)?;
                Ok($tensor { memory: Memory::Device(DevicePtr::new(ptr)), dtype, shape })
            }
            /// The same elements with dimensions in another order: dimension `i` of the result is dimension
            /// `order[i]`.
            ///
            /// # Errors
            ///
            /// An `order` that is not a permutation of the dimensions.
            pub fn permuted(self, order: &[usize]) -> Result<Self, TensorError> {
                Ok($tensor { shape: self.shape.permuted(order)?, ..self })
            }
            /// The part with `index` in dimension `dim`, which is dropped.
            ///
            /// # Errors
            ///
            /// A dimension or an index that is not there, or a rank of 1.
            pub fn select(self, dim: usize, index: usize) -> Result<Self, TensorError> {
                let (offset, shape) = self.shape.select(dim, index)?;
                Ok($tensor { memory: self.memory.after(offset * self.dtype.size() as u64), shape, ..self })
            }
            /// The part with the indices of `range` in dimension `dim`, which stays: the heads of Q in rows of Q, K and
            /// V.
            ///
            /// # Errors
            ///
            /// A dimension or indices that are not there.
            pub fn narrow(self, dim: usize, range: Range<usize>) -> Result<Self, TensorError> {
                let (offset, shape) = self.shape.narrow(dim, range)?;
                Ok($tensor { memory: self.memory.after(offset * self.dtype.size() as u64), shape, ..self })
            }
            /// Type of the elements.
            #[must_use]
            pub fn dtype(&self) -> Dtype {
                self.dtype
            }
            /// Extents, outermost first.
            #[must_use]
            pub fn shape(&self) -> &[usize] {
                self.shape.extents()
            }
            /// Strides in elements; never negative.
            #[must_use]
            pub fn strides(&self) -> &[i64] {
                self.shape.strides()
            }
            /// The device pointer, or `None` for host memory.
            #[must_use]
            pub fn device_ptr(&self) -> Option<u64> {
                self.memory.device_ptr()
            }
            /// The bytes of its elements.
            #[must_use]
            pub fn reach(&self) -> Reach<'_> {
                let address = match &self.memory {
                    Memory::Host(bytes) => bytes.as_ptr() as u64,
                    Memory::Device(ptr) => ptr.address,
                };
                Reach::new(self.device_ptr().is_some(), address, self.dtype.size(), self.shape(), self.strides())
            }
            /// The owner of its device memory, if one was named.
            #[must_use]
            pub fn owner(&self) -> Option<&'a dyn DeviceMemory> {
                self.memory.owner()
            }
            /// Whether each stride exceeds the greatest offset of the dimensions inside it, so that no two indices
            /// share an element.
            #[must_use]
            pub fn is_disjoint(&self) -> bool {
                self.shape.is_disjoint()
            }
        }
    )*};
}
descriptor!(TensorRef, TensorMut);
