//! Writing to the memory of a tensor, which candle locks for the time of an op.

#[cfg(feature = "cuda")]
use candle_core::CudaStorage;
use candle_core::{CpuStorage, InplaceOp1, Layout, Result, Tensor};

use crate::{Engine, tensors::ViewMut};

/// What is done with the memory of a tensor.
pub(crate) trait Write {
    /// The engine that it is done on.
    #[cfg_attr(not(feature = "cuda"), allow(dead_code))] // its stream
    fn engine(&self) -> &Engine;

    /// Does it.
    fn write(&self, view: ViewMut<'_>, layout: &Layout) -> Result<()>;
}

/// Locks the memory of a tensor and writes to it. Nothing of it may be locked by this thread.
pub(crate) fn write_to(tensor: &Tensor, with: &impl Write) -> Result<()> {
    tensor.inplace_op1(&InPlace(with))
}

struct InPlace<'a, W>(&'a W);

impl<W: Write> InplaceOp1 for InPlace<'_, W> {
    fn name(&self) -> &'static str {
        "attn"
    }

    fn cpu_fwd(&self, storage: &mut CpuStorage, layout: &Layout) -> Result<()> {
        self.0.write(ViewMut::Cpu(storage), layout)
    }

    #[cfg(feature = "cuda")]
    fn cuda_fwd(&self, storage: &mut CudaStorage, layout: &Layout) -> Result<()> {
        match self.0.engine().cuda_stream() {
            Some(stream) => self.0.write(ViewMut::Cuda(storage, stream), layout),
            None => crate::error::refuse("an output is on a CUDA device, and this engine is the CPU"),
        }
    }
}
