//! Loaded ops.

use std::{collections::hash_map::Entry, ffi::c_void};

use cudarc::driver::{
    result::module,
    sys::{CUfunction, CUmodule},
};

use super::Op;
use crate::{
    cuda::{CudaError, Device, Stream, function},
    jit::{self, Ready},
    splice::OpSource,
};

/// A module and its functions, in the order of their names. Who loads it unloads it.
#[derive(Clone, Debug)]
pub(in crate::cuda) struct OpModule {
    module: CUmodule,
    functions: Vec<CUfunction>,
}

// SAFETY: the driver allows modules and functions in any thread in which their context is current, which every call sees to.
unsafe impl Send for OpModule {}
// SAFETY: as above; nothing is changed after loading.
unsafe impl Sync for OpModule {}

impl OpModule {
    pub(super) fn load(device: &Device, ready: &Ready<OpSource>, kernels: &[&str]) -> Result<Self, CudaError> {
        let _current = device.make_current()?;
        let name = &ready.source.name;
        let fail = |e| CudaError::driver(format!("load `{name}`"), e);
        // an embedded image lies anywhere; the driver reads it as the words of an ELF file
        let cubin = &ready.compiled.cubin;
        let mut image = vec![0u64; cubin.len().div_ceil(8)];
        bytemuck::cast_slice_mut(&mut image)[..cubin.len()].copy_from_slice(cubin);
        // SAFETY: the image is a whole cubin: from a compiler, or checksummed by the cache.
        let raw = unsafe { module::load_data(image.as_ptr().cast::<c_void>()) }.map_err(fail)?;
        let mut loaded = OpModule { module: raw, functions: Vec::new() };
        for kernel in kernels {
            // SAFETY: the module is loaded, in the context that is current.
            match unsafe { function::find(raw, kernel, name) } {
                Ok(function) => loaded.functions.push(function),
                Err(error) => {
                    loaded.unload(); // the context is current
                    return Err(error);
                }
            }
        }
        Ok(loaded)
    }

    pub(super) fn get(&self, kernel: usize) -> Result<CUfunction, CudaError> {
        self.functions.get(kernel).copied().ok_or_else(|| not_loaded(kernel))
    }

    /// To be called once, with the context current and nothing under way.
    pub(in crate::cuda) fn unload(&self) {
        // SAFETY: it was loaded, and is not used again.
        let _ = unsafe { module::unload(self.module) };
    }
}

/// That a kernel which was asked for is not there.
pub(super) fn not_loaded(kernel: usize) -> CudaError {
    let (what, code) = (format!("find kernel {kernel} of an op"), "its module is loaded, and has it not".to_owned());
    CudaError::Driver { what, code }
}

/// Loads an op, unless it is there.
pub(super) fn prepare(device: &Device, op: Op) -> Result<(), CudaError> {
    // the lock is not held while a kernel compiles; who comes second finds it in the cache, and drops what it loaded
    if device.ops().contains_key(&op) {
        return Ok(());
    }
    let source = |arch| Ok::<_, CudaError>(OpSource::build(op, arch)?);
    let ready = jit::obtain_for_device(device.capability(), source)?;
    let loaded = OpModule::load(device, &ready, op.kernels())?;
    let _current = device.make_current()?;
    match device.ops().entry(op) {
        Entry::Occupied(_) => loaded.unload(),
        Entry::Vacant(place) => {
            place.insert(loaded);
        }
    }
    Ok(())
}

/// A kernel of an op, by its number; loaded if it is not yet and the stream is not being captured.
pub(super) fn kernel(stream: &Stream, op: Op, number: usize) -> Result<CUfunction, CudaError> {
    let device = stream.device();
    let find = || device.ops().get(&op).map(|module| module.get(number));
    if let Some(function) = find() {
        return function;
    }
    stream.refuse_capture("load the kernel of an op")?;
    prepare(device, op)?;
    find().unwrap_or_else(|| Err(not_loaded(number)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_kernel_that_is_not_there_is_an_error() {
        let function = 0x10 as CUfunction;
        let module = OpModule { module: std::ptr::null_mut(), functions: vec![function] };
        assert!(matches!(module.get(0), Ok(found) if found == function));
        let error = module.get(1).expect_err("there is one").to_string();
        assert!(error.contains("kernel 1"), "{error}");
    }
}
