//! Memory of candle's tensors as descriptors of attn-rs.
#![cfg_attr(not(feature = "cuda"), allow(unused_variables))] // what CUDA alone uses

mod ints;

use attn::{Dtype, TensorMut, TensorRef};
use attn_core::tensor::MAX_RANK;
#[cfg(feature = "cuda")]
use candle_core::CudaStorage;
#[cfg(feature = "cuda")]
use candle_core::cuda_backend::CudaStorageSlice;
#[cfg(feature = "cuda")]
pub(crate) use candle_core::cuda_backend::cudarc::driver::{CudaStream, SyncOnDrop as Guard};
#[cfg(feature = "cuda")]
use candle_core::cuda_backend::cudarc::driver::{DevicePtr, DevicePtrMut};
use candle_core::{CpuStorage, DType, Layout, Result, Storage, StorageRef, Tensor};

use crate::error::refuse;

pub(crate) use ints::{IntSlice, Ints, OpArray, slots};

/// Stand for types of CUDA in a build without it. There is no such object.
#[cfg(not(feature = "cuda"))]
mod without_cuda {
    use std::{convert::Infallible, marker::PhantomData};

    pub(crate) type CudaStream = Infallible;
    pub(crate) type Guard<'a> = (Infallible, PhantomData<&'a ()>);
}
#[cfg(not(feature = "cuda"))]
pub(crate) use without_cuda::{CudaStream, Guard};

/// A storage to read.
#[derive(Clone, Copy)]
pub(crate) enum View<'a> {
    Cpu(&'a CpuStorage),
    #[cfg(feature = "cuda")]
    Cuda(&'a CudaStorage, &'a CudaStream),
}

/// A storage to write.
pub(crate) enum ViewMut<'a> {
    Cpu(&'a mut CpuStorage),
    #[cfg(feature = "cuda")]
    Cuda(&'a mut CudaStorage, &'a CudaStream),
}

/// A tensor to read. On CUDA, candle orders later writes of other streams after what is launched until this is dropped.
pub(crate) struct Source<'a> {
    pub(crate) tensor: TensorRef<'a>,
    /// The address of the storage, and where its memory begins on the device.
    #[cfg_attr(not(feature = "cuda"), allow(dead_code))] // the CPU has no events
    memory: Option<(usize, u64)>,
    _order: Option<Guard<'a>>,
}

/// A tensor to write; ordered as [`Source`].
pub(crate) struct Sink<'a> {
    pub(crate) tensor: TensorMut<'a>,
    _order: Option<Guard<'a>>,
}

/// Shape and strides of a view, in elements.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Dims<'a> {
    layout: &'a Layout,
    /// The strides of [`attn`]; of more than [`MAX_RANK`] dimensions, which it refuses, the first.
    strides: [i64; MAX_RANK],
}

impl<'a> Dims<'a> {
    pub(crate) fn of(layout: &'a Layout) -> Self {
        let mut strides = [0; MAX_RANK];
        strides.iter_mut().zip(layout.stride()).for_each(|(to, &stride)| *to = stride as i64);
        Dims { layout, strides }
    }

    fn shape(&self) -> &[usize] {
        self.layout.dims()
    }

    fn strides(&self) -> &[i64] {
        &self.strides[..self.layout.stride().len().min(MAX_RANK)]
    }

    fn offset(&self) -> usize {
        self.layout.start_offset()
    }
}

/// The element type of a tensor of attention.
pub(crate) fn dtype(of: DType, name: &str) -> Result<Dtype> {
    match of {
        DType::F16 => Ok(Dtype::F16),
        DType::BF16 => Ok(Dtype::Bf16),
        DType::F32 => Ok(Dtype::F32),
        DType::F8E4M3 => Ok(Dtype::E4m3),
        other => refuse(format!(
            "`{name}` is of {}; attention takes f16, bf16 and f32, and for keys and values also f8e4m3: convert it \
             (`to_dtype`)",
            other.as_str()
        )),
    }
}

/// candle's name of an element type; none of candle's is e5m2.
pub(crate) fn candle_dtype(of: Dtype) -> Result<DType> {
    match of {
        Dtype::F16 => Ok(DType::F16),
        Dtype::Bf16 => Ok(DType::BF16),
        Dtype::F32 => Ok(DType::F32),
        Dtype::E4m3 => Ok(DType::F8E4M3),
        Dtype::U8 => Ok(DType::U8),
        Dtype::E5m2 => refuse("candle has no tensors of e5m2; take e4m3, f16, bf16 or f32"),
    }
}

/// Elements of candle's 8-bit type as those of attn-rs. Both hold the same byte.
fn e4m3(of: &[float8::F8E4M3]) -> &[attn::F8E4M3] {
    const { assert!(size_of::<float8::F8E4M3>() == 1 && size_of::<attn::F8E4M3>() == 1) };
    // SAFETY: both types are one byte of which every value is allowed.
    unsafe { std::slice::from_raw_parts(of.as_ptr().cast(), of.len()) }
}

fn e4m3_mut(of: &mut [float8::F8E4M3]) -> &mut [attn::F8E4M3] {
    // SAFETY: as in `e4m3`; the borrow is exclusive.
    unsafe { std::slice::from_raw_parts_mut(of.as_mut_ptr().cast(), of.len()) }
}

/// The elements behind a CPU storage, of a type that attention takes.
macro_rules! with_elements {
    ($storage:expr, $name:expr, $e4m3:ident, $data:ident => $run:expr) => {
        match $storage {
            CpuStorage::F16($data) => $run,
            CpuStorage::BF16($data) => $run,
            CpuStorage::F32($data) => $run,
            CpuStorage::F8E4M3(data) => {
                let $data = $e4m3(data);
                $run
            }
            other => {
                dtype(candle_core::backend::BackendStorage::dtype(other), $name)?;
                refuse(format!("`{}` has elements that attention does not take", $name))
            }
        }
    };
}

/// The tensor in a storage that attention reads, beside others of the same launch: the events of a storage are waited
/// for and recorded once, by the first.
pub(crate) fn read<'a>(view: View<'a>, dims: &Dims<'_>, name: &str, beside: &[&Source<'a>]) -> Result<Source<'a>> {
    check_rows(dims, name)?;
    match view {
        View::Cpu(storage) => {
            let tensor = with_elements!(storage, name, e4m3, data => {
                let data = data.get(dims.offset()..).unwrap_or(&[]);
                over(TensorRef::host(data, dims.shape()).and_then(|of| of.with_strides(dims.strides())), dims, name)
            })?;
            Ok(Source { tensor, memory: None, _order: None })
        }
        #[cfg(feature = "cuda")]
        View::Cuda(storage, stream) => {
            let address = std::ptr::from_ref(storage).addr();
            let known = beside.iter().find_map(|of| of.memory.filter(|&(storage, _)| storage == address));
            let (dtype, begin, order) = match known {
                Some((_, begin)) => (element_type(storage, name)?, begin, None),
                None => pointer(storage, stream, name)?,
            };
            let ptr = begin + (dims.offset() * dtype.size()) as u64;
            // SAFETY: candle's layout is within the storage, which the borrow keeps; frees are in the order of the
            // stream that runs are in.
            let tensor = over(unsafe { TensorRef::device(ptr, dtype, dims.shape(), dims.strides()) }, dims, name)?;
            Ok(Source { tensor, memory: Some((address, begin)), _order: order })
        }
    }
}

/// The tensor in a storage that attention writes.
pub(crate) fn write<'a>(view: ViewMut<'a>, dims: &Dims<'_>, name: &str) -> Result<Sink<'a>> {
    match view {
        ViewMut::Cpu(storage) => {
            let tensor = with_elements!(storage, name, e4m3_mut, data => {
                let data = data.get_mut(dims.offset()..).unwrap_or(&mut []);
                over(TensorMut::host(data, dims.shape()).and_then(|of| of.with_strides(dims.strides())), dims, name)
            })?;
            Ok(Sink { tensor, _order: None })
        }
        #[cfg(feature = "cuda")]
        ViewMut::Cuda(storage, stream) => {
            let (dtype, ptr, order) = pointer_mut(storage, stream, name)?;
            let tensor = device_mut(ptr, dtype, dims, name)?;
            Ok(Sink { tensor, _order: Some(order) })
        }
    }
}

/// Two tensors in one storage that are written: keys and values of one pool.
pub(crate) fn write_both<'a>(
    view: ViewMut<'a>,
    of: [&Dims<'_>; 2],
    names: [&str; 2],
) -> Result<(Sink<'a>, TensorMut<'a>)> {
    let [first, second] = of;
    match view {
        ViewMut::Cpu(storage) => {
            let of = dtype(candle_core::backend::BackendStorage::dtype(storage), names[0])?;
            let (at, len) = with_elements!(storage, names[0], e4m3_mut, data => {
                Ok::<_, candle_core::Error>((data.as_mut_ptr().cast::<u8>(), data.len()))
            })?;
            let part = |dims: &Dims<'_>, name| {
                if dims.offset() + extent(dims) > len {
                    return refuse(format!("`{name}` of shape {:?} is not within its storage", dims.shape()));
                }
                // SAFETY: the elements are within the storage, whose borrow the result keeps; what both tensors have
                // the op refuses before it writes.
                let tensor =
                    unsafe { TensorMut::host_raw(at.add(dims.offset() * of.size()), of, dims.shape(), dims.strides()) };
                over(tensor, dims, name)
            };
            Ok((Sink { tensor: part(first, names[0])?, _order: None }, part(second, names[1])?))
        }
        #[cfg(feature = "cuda")]
        ViewMut::Cuda(storage, stream) => {
            if first.offset() == second.offset() {
                return refuse(format!(
                    "`{}` and `{}` are the same memory; give each memory of its own",
                    names[0], names[1]
                ));
            }
            let (dtype, ptr, order) = pointer_mut(storage, stream, names[0])?;
            let tensor = device_mut(ptr, dtype, first, names[0])?;
            Ok((Sink { tensor, _order: Some(order) }, device_mut(ptr, dtype, second, names[1])?))
        }
    }
}

/// Elements from the first to the last.
fn extent(dims: &Dims<'_>) -> usize {
    if dims.shape().contains(&0) {
        return 0;
    }
    1 + dims.shape().iter().zip(dims.strides()).map(|(&len, &stride)| (len - 1) * stride as usize).sum::<usize>()
}

#[cfg(feature = "cuda")]
fn device_mut<'a>(ptr: u64, dtype: Dtype, dims: &Dims<'_>, name: &str) -> Result<TensorMut<'a>> {
    let ptr = ptr + (dims.offset() * dtype.size()) as u64;
    // SAFETY: as in `read`; candle's lock of the storage is held to write.
    over(unsafe { TensorMut::device(ptr, dtype, dims.shape(), dims.strides()) }, dims, name)
}

/// Names the tensor in the error of a descriptor.
fn over<T>(of: std::result::Result<T, attn::TensorError>, dims: &Dims<'_>, name: &str) -> Result<T> {
    of.map_err(|error| {
        let (shape, strides) = (dims.shape(), dims.layout.stride());
        let contiguous =
            if strides.contains(&0) { ". Repeated elements are not supported: `contiguous()`" } else { "" };
        candle_core::Error::msg(format!("`{name}` of shape {shape:?} and strides {strides:?}: {error}{contiguous}"))
    })
}

#[cfg(feature = "cuda")]
fn element_type(storage: &CudaStorage, name: &str) -> Result<Dtype> {
    dtype(candle_core::backend::BackendStorage::dtype(storage), name)
}

#[cfg(feature = "cuda")]
fn pointer<'a>(
    storage: &'a CudaStorage,
    stream: &'a CudaStream,
    name: &str,
) -> Result<(Dtype, u64, Option<Guard<'a>>)> {
    let of = element_type(storage, name)?;
    let (ptr, order) = match &storage.slice {
        CudaStorageSlice::F16(slice) => slice.device_ptr(stream),
        CudaStorageSlice::BF16(slice) => slice.device_ptr(stream),
        CudaStorageSlice::F32(slice) => slice.device_ptr(stream),
        CudaStorageSlice::F8E4M3(slice) => slice.device_ptr(stream),
        _ => return refuse(format!("`{name}` has elements that attention does not take")),
    };
    Ok((of, ptr, Some(order)))
}

#[cfg(feature = "cuda")]
fn pointer_mut<'a>(
    storage: &'a mut CudaStorage,
    stream: &'a CudaStream,
    name: &str,
) -> Result<(Dtype, u64, Guard<'a>)> {
    let of = element_type(storage, name)?;
    let (ptr, order) = match &mut storage.slice {
        CudaStorageSlice::F16(slice) => slice.device_ptr_mut(stream),
        CudaStorageSlice::BF16(slice) => slice.device_ptr_mut(stream),
        CudaStorageSlice::F32(slice) => slice.device_ptr_mut(stream),
        CudaStorageSlice::F8E4M3(slice) => slice.device_ptr_mut(stream),
        _ => return refuse(format!("`{name}` has elements that attention does not take")),
    };
    Ok((of, ptr, order))
}

/// The address of a storage, by which two tensors are known to share it.
pub(crate) fn address(tensor: &Tensor) -> usize {
    std::ptr::from_ref::<Storage>(&tensor.storage_and_layout().0).addr()
}

/// Storages of up to three tensors, each locked once: a second lock of this thread could wait for a writer that waits
/// for the first.
pub(crate) struct Locked<'a> {
    guards: [Option<StorageRef<'a>>; 3],
    of: [usize; 3],
}

impl<'a> Locked<'a> {
    /// Locks the storages of tensors, of which `addresses` are known.
    pub(crate) fn new(tensors: [Option<&'a Tensor>; 3], addresses: [Option<usize>; 3]) -> Self {
        let of: [usize; 3] =
            std::array::from_fn(|i| addresses.iter().position(|&first| first == addresses[i]).unwrap_or(i));
        let guards = std::array::from_fn(|i| tensors[i].filter(|_| of[i] == i).map(|of| of.storage_and_layout().0));
        Locked { guards, of }
    }

    /// The storage of a tensor that was given.
    pub(crate) fn get(&self, index: usize) -> Option<&Storage> {
        self.guards[self.of[index]].as_deref()
    }
}

/// Refuses rows with gaps, and elements that are repeated, with the way out.
fn check_rows(dims: &Dims<'_>, name: &str) -> Result<()> {
    let (shape, strides) = (dims.shape(), dims.layout.stride());
    let refused = |why: &str| {
        refuse(format!("`{name}` of shape {shape:?} has strides {strides:?}; {why}: pass `{name}.contiguous()`"))
    };
    if shape.iter().zip(strides).any(|(&len, &stride)| len > 1 && stride == 0) {
        return refused("elements that are repeated (a stride of 0) are not supported");
    }
    match (shape.last(), strides.last()) {
        (Some(&len), Some(&stride)) if len > 1 && stride != 1 => {
            refused("elements of a row must be adjacent (a last stride of 1)")
        }
        _ => Ok(()),
    }
}
