//! Checks of batches whose arrays are in device memory.

use std::sync::{Mutex, PoisonError};

use attn_core::batch::{BatchCapacity, DeviceBatch};
use attn_core::plan::PlanError;
use bytemuck::Zeroable;

use super::device_batch::check_addresses;
use crate::cuda::attention::planner::Planner;
use crate::cuda::driver::launch_kernel::launch_kernel;
use crate::cuda::driver::uses::Access;
use crate::cuda::{CudaBuffer, CudaError, CudaStream, Device};
use crate::jit;
use crate::launch::{PLAN_STATUS_BYTES, PlanParams, PlanStatus};
use crate::splice::PlannerSource;

/// `CHECK_THREADS` of cuda/planner/check_kernel.cuh.
const THREADS: u32 = 1024;

/// Checks batches in device memory without planning them: for an engine that plans on the host, but whose kernels read
/// arrays on the device. `Send` and `Sync`.
#[derive(Debug)]
pub struct CudaBatchChecker {
    kernel: Planner,
    status: CudaBuffer,
    /// The parameters of the last check. Its status code refers to them.
    last: Mutex<Option<PlanParams>>,
}

impl CudaBatchChecker {
    /// Compiles and loads the kernel.
    ///
    /// # Errors
    ///
    /// No kernel and no compiler; no memory.
    pub fn new(device: &Device) -> Result<Self, CudaError> {
        let source = |arch| Ok::<_, CudaError>(PlannerSource::checker(arch)?);
        let ready = jit::obtain_for_device(device.capability(), source)?;
        Ok(CudaBatchChecker {
            kernel: Planner::load(device, &ready, c"attn_check")?,
            status: CudaBuffer::upload(device, &[0; PLAN_STATUS_BYTES])?,
            last: Mutex::default(),
        })
    }

    /// Checks the prefix sums, lengths and pages of a batch, and that it is within a capacity, in the order of the
    /// stream. This is one small launch, which may be captured; [`CudaBatchChecker::status`] returns the result of the
    /// last one.
    ///
    /// # Errors
    ///
    /// Arrays in host memory, arrays that do not fit each other, levels, or more requests than the capacity; a stream
    /// of another device. Nothing is launched then.
    pub fn check(
        &self,
        stream: &CudaStream,
        batch: &DeviceBatch<'_>,
        capacity: &BatchCapacity,
    ) -> Result<(), CudaError> {
        let device = self.status.device();
        device.check_same("stream", stream.device())?;
        let params = PlanParams { status: self.status.ptr(), ..PlanParams::for_checking(capacity) };
        let params = params.of_batch(batch, capacity)?;
        if !batch.levels.is_empty() {
            return Err(PlanError::Levels { what: "the checker of batches on the device" }.into());
        }
        check_addresses(batch)?;
        let _current = device.make_current()?;
        let _submission = stream.submission();
        self.status.uses().submit(stream.state(), Access::Write, || {
            // SAFETY: the caller promised the memory of the arrays when it made them; the status is ours. The second
            // parameter is a struct without members.
            unsafe { launch_kernel(self.kernel.function, (1, 1), THREADS, 0, stream, &params, &[0; 16]) }?;
            // before another thread launches a check, whose parameters would then be the last
            *self.last.lock().unwrap_or_else(PoisonError::into_inner) = Some(params);
            Ok(())
        })
    }

    /// Returns the error of the batch that was checked last, if it had one. Waits for all work of the device.
    ///
    /// # Errors
    ///
    /// The error of the batch; a stream that is being captured; a failure of the driver.
    pub fn status(&self, stream: &CudaStream) -> Result<(), CudaError> {
        self.status.device().check_same("stream", stream.device())?;
        stream.refuse_capture("wait for what a check says")?;
        let Some(params) = *self.last.lock().unwrap_or_else(PoisonError::into_inner) else { return Ok(()) };
        let mut status = PlanStatus::zeroed();
        self.status.download(0, bytemuck::bytes_of_mut(&mut status))?;
        Ok(status.check(&params)?)
    }
}
