//! CUDA C++ of the caller: compiled as the project's kernels are, loaded and launched.

use std::ffi::c_void;

use attn_core::ops::{Array, ArrayMut, Number};
use attn_core::tensor::{DeviceMemory, TensorMut, TensorRef};

use super::module::load;
use crate::cuda::driver::launch_kernel::launch_with;
use crate::cuda::driver::op_module::OpModule;
use crate::cuda::driver::order::order;
use crate::cuda::driver::release::Released;
use crate::cuda::driver::uses::Access::{self, Read, Write};
use crate::cuda::{CudaError, CudaStream, Device};
use crate::jit;
use crate::splice::OpSource;

/// The grid of a launch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Grid {
    /// CTAs along x and y; a launch of none does nothing.
    pub ctas: (u32, u32),
    /// Threads of a CTA.
    pub threads: u32,
    /// Bytes of dynamic shared memory of a CTA, at most 48 KiB.
    pub smem: u32,
}

/// An argument of a kernel.
#[derive(Clone, Copy, Debug)]
pub struct Arg<'a>(Kind<'a>);

#[derive(Clone, Copy, Debug)]
enum Kind<'a> {
    Value(&'a [u8]),
    Pointer {
        address: u64,
        owner: Option<&'a dyn DeviceMemory>,
        access: Access,
    },
    /// Memory of the host, which no kernel may read.
    Host,
}

impl<'a> Arg<'a> {
    /// A value: a number, or a `repr(C)` struct.
    pub fn value<T: bytemuck::NoUninit>(value: &'a T) -> Self {
        Arg(Kind::Value(bytemuck::bytes_of(value)))
    }

    /// The address of a tensor that the kernel reads.
    #[must_use]
    pub fn read(tensor: &TensorRef<'a>) -> Self {
        Self::pointer(tensor.device_ptr(), tensor.owner(), Read)
    }

    /// The address of a tensor that the kernel writes.
    #[must_use]
    pub fn write(tensor: &TensorMut<'a>) -> Self {
        Self::pointer(tensor.device_ptr(), tensor.owner(), Write)
    }

    /// The address of an array of integers that the kernel reads.
    #[must_use]
    pub fn read_array<T: Number>(array: &Array<'a, T>) -> Self {
        Self::pointer(array.device_ptr(), array.owner(), Read)
    }

    /// The address of an array of integers that the kernel writes.
    #[must_use]
    pub fn write_array<T: Number>(array: &ArrayMut<'a, T>) -> Self {
        Self::pointer(array.device_ptr(), array.owner(), Write)
    }

    fn pointer(address: Option<u64>, owner: Option<&'a dyn DeviceMemory>, access: Access) -> Self {
        Arg(address.map_or(Kind::Host, |address| Kind::Pointer { address, owner, access }))
    }
}

/// Kernels of the caller, loaded on a device. Unloaded on drop. `Send` and `Sync`.
#[derive(Debug)]
pub struct CudaModule {
    device: Device,
    loaded: OpModule,
}

impl CudaModule {
    /// Compiles CUDA C++ for the device, unless the cubin is embedded or cached, and loads it. `kernels` are the
    /// `extern "C"` entries, which [`CudaModule::launch`] counts in this order. [`OpSource::custom`] says what the text
    /// may use.
    ///
    /// # Errors
    ///
    /// [`CudaError::Jit`] with the compiler's log; a failure of the driver, such as an entry that is not there.
    pub fn new(device: &Device, name: &str, text: &str, kernels: &[&str]) -> Result<Self, CudaError> {
        let source = |arch| Ok::<_, CudaError>(OpSource::custom(name, text, arch)?);
        let ready = jit::obtain_for_device(device.capability(), source)?;
        Ok(CudaModule { device: device.clone(), loaded: load(device, &ready, kernels)? })
    }

    /// The device.
    #[must_use]
    pub fn device(&self) -> &Device {
        &self.device
    }

    /// Launches kernel number `kernel` on a stream, ordered with other streams that use the memory of the arguments. It
    /// allocates nothing and waits for nothing, so that it can be captured.
    ///
    /// # Errors
    ///
    /// A stream or memory of another device, memory of the host, a number past the kernels of the module, or a failure
    /// of the driver, such as too many threads. Nothing is launched then.
    ///
    /// # Safety
    ///
    /// The kernel takes parameters of these types, in this order. It keeps inside the memory of its arguments, and
    /// writes only to those that are given to be written.
    pub unsafe fn launch(
        &self,
        stream: &CudaStream,
        kernel: usize,
        grid: Grid,
        args: &[Arg<'_>],
    ) -> Result<(), CudaError> {
        self.device.check_same("stream", stream.device())?;
        let function = self.loaded.get(kernel)?;
        let _current = self.device.make_current()?;
        let _submission = stream.submission();
        let mut pointers: Vec<*mut c_void> = Vec::with_capacity(args.len());
        for Arg(kind) in args {
            pointers.push(match kind {
                Kind::Value(bytes) => bytes.as_ptr().cast_mut().cast(),
                Kind::Pointer { address, owner, access } => {
                    order(stream, *access, [("argument", *owner)])?;
                    std::ptr::from_ref(address).cast_mut().cast()
                }
                Kind::Host => return Err(CudaError::HostArgument { index: pointers.len() }),
            });
        }
        // SAFETY: by the caller's promise.
        unsafe { launch_with(function, grid.ctas, grid.threads, grid.smem, stream, &mut pointers) }
    }
}

impl Drop for CudaModule {
    fn drop(&mut self) {
        self.device.release(Released::Module(self.loaded.module));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn memory_of_the_host_is_no_argument() {
        let (values, numbers) = ([0f32; 2], [0i32; 2]);
        let tensor = TensorRef::host(&values, &[2]).expect("fits");
        assert!(matches!(Arg::read(&tensor).0, Kind::Host));
        assert!(matches!(Arg::read_array(&Array::host(&numbers)).0, Kind::Host));
        // SAFETY: it is never read.
        let tensor = unsafe { TensorRef::device(0x1000, attn_core::dtype::Dtype::F32, &[2], &[1]) }.expect("fits");
        assert!(matches!(Arg::read(&tensor).0, Kind::Pointer { address: 0x1000, access: Read, .. }));
        assert!(matches!(Arg::value(&7u32).0, Kind::Value([7, 0, 0, 0])));
    }
}
