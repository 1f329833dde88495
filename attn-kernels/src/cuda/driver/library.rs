//! The driver library, probed before any call, because cudarc panics on a missing library or function.

use std::{error::Error as _, ffi::c_void, path::Path, sync::OnceLock};

use libloading::Library;

use crate::{cuda::CudaError, shared_library};

/// Names of the library.
const NAMES: &[&str] = if cfg!(windows) { &["nvcuda.dll"] } else { &["libcuda.so.1", "libcuda.so"] };

/// Every entry point that this crate calls. The oldest supported driver (CUDA 12.0) has all of them.
const NEEDED: &[&str] = &[
    "cuCtxGetCurrent",
    "cuCtxSetCurrent",
    "cuCtxSynchronize",
    "cuDeviceGet",
    "cuDeviceGetAttribute",
    "cuDeviceGetCount",
    "cuDeviceGetName",
    "cuDevicePrimaryCtxRelease_v2",
    "cuDevicePrimaryCtxRetain",
    "cuDeviceTotalMem_v2",
    "cuDriverGetVersion",
    "cuEventCreate",
    "cuEventDestroy_v2",
    "cuEventRecord",
    "cuEventSynchronize",
    "cuFuncGetAttribute",
    "cuFuncSetAttribute",
    "cuGetErrorName",
    "cuGetErrorString",
    "cuGraphDestroy",
    "cuGraphExecDestroy",
    "cuGraphInstantiateWithFlags",
    "cuGraphLaunch",
    "cuInit",
    "cuLaunchKernel",
    "cuMemAlloc_v2",
    "cuMemFreeHost",
    "cuMemFree_v2",
    "cuMemGetInfo_v2",
    "cuMemHostAlloc",
    "cuMemcpyDtoDAsync_v2",
    "cuMemcpyDtoH_v2",
    "cuMemcpyHtoDAsync_v2",
    "cuMemcpyHtoD_v2",
    "cuMemsetD8Async",
    "cuModuleGetFunction",
    "cuModuleLoadData",
    "cuModuleUnload",
    "cuOccupancyMaxActiveBlocksPerMultiprocessor",
    "cuPointerGetAttributes",
    "cuStreamBeginCapture_v2",
    "cuStreamCreate",
    "cuStreamDestroy_v2",
    "cuStreamEndCapture",
    "cuStreamGetId",
    "cuStreamIsCapturing",
    "cuStreamSynchronize",
    "cuStreamWaitEvent",
    "cuTensorMapEncodeTiled",
    "cuThreadExchangeStreamCaptureMode",
];

/// `cuEventElapsedTime`. The bindings of CUDA 13 replace it by a function that older drivers do not have.
pub(super) type ElapsedTime = unsafe extern "C" fn(*mut f32, *mut c_void, *mut c_void) -> u32;

/// `cuStreamGetId`, which the bindings of CUDA 11 do not have.
type StreamId = unsafe extern "C" fn(*mut c_void, *mut u64) -> u32;

pub(super) struct Driver {
    pub(super) elapsed_time: ElapsedTime,
    stream_id: StreamId,
}

/// The driver's number of a stream, which is never reused; `None` if it has none. The context of the stream is current.
pub(super) fn stream_id(stream: *mut c_void) -> Result<Option<u64>, CudaError> {
    let mut id = 0;
    // SAFETY: the stream lives, and the output is valid for writes.
    let code = unsafe { (driver()?.stream_id)(stream, &raw mut id) };
    Ok((code == 0).then_some(id))
}

static DRIVER: OnceLock<Result<Driver, String>> = OnceLock::new();

/// Whether the driver has been loaded.
pub(super) fn is_loaded() -> bool {
    DRIVER.get().is_some_and(Result::is_ok)
}

/// The driver, loaded and initialised once per process.
pub(super) fn driver() -> Result<&'static Driver, CudaError> {
    DRIVER.get_or_init(load).as_ref().map_err(|reason| CudaError::NoDriver { reason: reason.clone() })
}

fn load() -> Result<Driver, String> {
    let mut why = String::new();
    let open = |name: &&str| {
        // SAFETY: the driver's initialisers have no requirements on the caller.
        let opened = unsafe { shared_library::load(Path::new(name), false) };
        // the loader's message distinguishes a missing library from one that does not fit; `libloading` has it as the
        // source of its error
        opened.map_err(|e| e.source().map_or_else(|| e.to_string(), ToString::to_string))
    };
    let library = NAMES.iter().find_map(|name| match open(name) {
        Ok(library) => Some(library),
        Err(reason) => {
            if why.is_empty() {
                why = reason;
            }
            None
        }
    });
    let library = library.ok_or(why)?;
    // never unloaded; cudarc's own handle keeps it as well
    let library: &'static Library = Box::leak(Box::new(library));
    for name in NEEDED {
        // SAFETY: the symbol is only looked up.
        if unsafe { library.get::<*const c_void>(name.as_bytes()) }.is_err() {
            return Err(format!("it is older than CUDA 12 (it has no {name})"));
        }
    }
    // SAFETY: the signature is that of cuda.h.
    let elapsed_time = *unsafe { library.get::<ElapsedTime>(b"cuEventElapsedTime") }.map_err(|e| e.to_string())?;
    // SAFETY: as above.
    let stream_id = *unsafe { library.get::<StreamId>(b"cuStreamGetId") }.map_err(|e| e.to_string())?;
    // it loads the driver once more, by several names
    shared_library::without_working_folder(cudarc::driver::result::init)
        .map_err(|e| format!("it does not start: {e}"))?;
    Ok(Driver { elapsed_time, stream_id })
}

/// The number of CUDA devices.
///
/// # Errors
///
/// [`CudaError::NoDriver`] when there is no driver, or it does not start.
pub fn device_count() -> Result<u32, CudaError> {
    driver()?;
    let count = cudarc::driver::result::device::get_count().map_err(|e| CudaError::driver("count devices", e))?;
    Ok(u32::try_from(count).unwrap_or(0))
}

/// The CUDA version of the driver, such as (13, 0).
///
/// # Errors
///
/// The errors of [`device_count`].
pub fn version() -> Result<(u32, u32), CudaError> {
    driver()?;
    let mut version = 0;
    // SAFETY: the driver is there, and the output is valid for writes.
    let result = unsafe { cudarc::driver::sys::cuDriverGetVersion(&raw mut version) };
    result.result().map_err(|e| CudaError::driver("read the driver's version", e))?;
    Ok(((version / 1000) as u32, (version % 1000 / 10) as u32))
}
