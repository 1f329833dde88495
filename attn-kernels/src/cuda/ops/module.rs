//! The kernels of ops, loaded at their first use.

use std::collections::hash_map::Entry;

use cudarc::driver::sys::CUfunction;

use super::Op;
use crate::cuda::driver::captured::Name;
use crate::cuda::driver::function;
use crate::cuda::driver::op_module::{OpModule, not_loaded};
use crate::cuda::{CudaError, CudaStream, Device};
use crate::jit::{self, Ready};
use crate::splice::OpSource;

/// Loads a cubin and finds its kernels.
pub(super) fn load(device: &Device, ready: &Ready<OpSource>, kernels: &[&str]) -> Result<OpModule, CudaError> {
    let _current = device.make_current()?;
    let name = &ready.source.name;
    let raw = function::load_module(&ready.compiled, name)?;
    let mut loaded = OpModule { module: raw, functions: Vec::new() };
    for kernel in kernels {
        // SAFETY: the module is loaded, in the context that is current.
        match unsafe { function::find_function(raw, kernel, name) } {
            Ok(function) => loaded.functions.push(function),
            Err(error) => {
                loaded.unload(); // the context is current
                return Err(error);
            }
        }
    }
    Ok(loaded)
}

/// Compiles and loads an op, unless it is loaded.
pub(super) fn prepare(device: &Device, op: Op) -> Result<(), CudaError> {
    // the lock is not held during a compilation; a second thread finds the cubin in the cache and drops its module
    if device.ops().contains_key(&op) {
        return Ok(());
    }
    let source = |arch| Ok::<_, CudaError>(OpSource::build(op, arch)?);
    let ready = jit::obtain_for_device(device.capability(), source)?;
    let loaded = load(device, &ready, op.kernels())?;
    let _current = device.make_current()?;
    if matches!(op, Op::Sample { .. }) {
        let opted_in = loaded.functions.iter().try_for_each(|&function| {
            // SAFETY: the function belongs to the module, which is loaded.
            unsafe { function::opt_in_smem(function, device.max_smem()) }
        });
        if let Err(error) = opted_in {
            loaded.unload(); // the context is current
            return Err(CudaError::driver(format!("give `{}` shared memory", ready.source.name), error));
        }
    }
    match device.ops().entry(op) {
        Entry::Occupied(_) => loaded.unload(),
        Entry::Vacant(vacant) => {
            vacant.insert(loaded);
        }
    }
    Ok(())
}

/// The kernel of an op with a number. It is loaded if it is not yet and the stream is not being captured.
pub(super) fn kernel(stream: &CudaStream, op: Op, number: usize) -> Result<CUfunction, CudaError> {
    let device = stream.device();
    stream.keep_captured(Name::of_device(device.ordinal()), || [device.kept()])?;
    let find = || device.ops().get(&op).map(|module| module.get(number));
    if let Some(function) = find() {
        return function;
    }
    stream.refuse_capture("load the kernel of an op")?;
    prepare(device, op)?;
    find().unwrap_or_else(|| Err(not_loaded(number)))
}
