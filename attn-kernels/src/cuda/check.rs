//! Batches whose lengths are on the device, checked there.

use std::sync::{Mutex, PoisonError};

use attn_core::batch::{BatchCapacity, DeviceBatch};
use bytemuck::Zeroable;

use super::{
    CudaError, Device, DeviceBuffer, Stream,
    device_plan::{Planner, addresses},
    run::launch,
};
use crate::{
    jit,
    launch::{PLAN_STATUS_BYTES, PlanParams, PlanStatus},
    splice::PlannerSource,
};

/// `CHECK_THREADS` of cuda/planner/check_kernel.cuh.
const THREADS: u32 = 1024;

/// Checks batches in memory of the device, where nobody plans there: an engine that plans on the host, and holds what kernels read on the device. `Send` and `Sync`.
#[derive(Debug)]
pub struct BatchChecker {
    kernel: Planner,
    status: DeviceBuffer,
    /// What the last check was told, which its finding is read by.
    last: Mutex<Option<PlanParams>>,
}

impl BatchChecker {
    /// Compiles and loads the kernel.
    ///
    /// # Errors
    ///
    /// No kernel and no compiler; no memory.
    pub fn new(device: &Device) -> Result<Self, CudaError> {
        let source = |arch| Ok::<_, CudaError>(PlannerSource::checker(arch)?);
        let ready = jit::obtain_for_device(device.capability(), source)?;
        Ok(BatchChecker {
            kernel: Planner::load(device, &ready, c"attn_check")?,
            status: DeviceBuffer::upload(device, &[0; PLAN_STATUS_BYTES])?,
            last: Mutex::default(),
        })
    }

    /// Checks a batch when the stream gets there: prefix sums, lengths, pages, and that it is within a capacity. One small launch, which may be captured;
    /// [`BatchChecker::status`] says what was found by the last one that ran.
    ///
    /// # Errors
    ///
    /// Arrays in host memory, that do not go together, or of more requests than the capacity; a stream of another device. Nothing is launched then.
    pub fn check(&self, stream: &Stream, batch: &DeviceBatch<'_>, capacity: &BatchCapacity) -> Result<(), CudaError> {
        let device = self.status.device();
        device.check_same("stream", stream.device())?;
        let params = PlanParams { status: self.status.ptr(), ..PlanParams::for_checking(capacity) };
        let params = params.of_batch(batch, capacity)?;
        addresses(batch)?;
        let _current = device.make_current()?;
        // SAFETY: whoever made the arrays promised that they are there; the status is ours. The second parameter is a struct without members.
        unsafe { launch(self.kernel.function, (1, 1), THREADS, 0, stream, &params, &[0; 16]) }?;
        *self.last.lock().unwrap_or_else(PoisonError::into_inner) = Some(params);
        Ok(())
    }

    /// What was wrong with the batch that was checked last, if anything. Waits for everything given to the device.
    ///
    /// # Errors
    ///
    /// That; a stream that is being captured; a failure of the driver.
    pub fn status(&self, stream: &Stream) -> Result<(), CudaError> {
        self.status.device().check_same("stream", stream.device())?;
        stream.refuse_capture("wait for what a check says")?;
        let Some(params) = *self.last.lock().unwrap_or_else(PoisonError::into_inner) else { return Ok(()) };
        let mut status = PlanStatus::zeroed();
        self.status.download(0, bytemuck::bytes_of_mut(&mut status))?;
        Ok(status.check(&params)?)
    }
}
