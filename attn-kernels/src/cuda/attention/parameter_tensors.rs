//! Parameter tensors whose content is replaced in place.

use attn_core::expr::{ContentError, TensorContent, TensorSlot};
use attn_core::ops::TensorRows;

use crate::cuda::driver::captured::{Kept, Name};
use crate::cuda::ops::write_rows;
use crate::cuda::{CudaAttention, CudaBuffer, CudaError, CudaStream};

impl CudaAttention {
    /// Replaces the content of a parameter tensor in place, in the order of the stream. Later runs of all plans of this
    /// attention read the new content, and so do replays of captured runs. Nothing is planned or compiled. A copy from
    /// device memory may be captured. Values in host memory may be changed on return, as with [`CudaBuffer::write`].
    ///
    /// # Errors
    ///
    /// [`ContentError`] for a tensor that cannot be replaced, or values of another type or number; values in host
    /// memory while the stream is being captured, because a replay would read them; a failure of the driver. Nothing is
    /// changed then.
    pub fn set_tensor(&self, stream: &CudaStream, name: &str, content: &TensorContent<'_>) -> Result<(), CudaError> {
        self.device().check_same("stream", stream.device())?;
        let slot = self.variant().tensor_slot(name)?;
        slot.check(content)?;
        let buffer = self.buffer_of(&slot)?;
        self.keep_captured(stream)?;
        self.bound.first_branch().0.replace(stream, buffer, content)
    }

    /// Writes rows of a parameter tensor in place, in the order of the stream and from device memory: one launch, which
    /// can be captured. As [`CudaAttention::set_tensor`] otherwise.
    ///
    /// # Errors
    ///
    /// The errors of [`CudaAttention::set_tensor`]; rows of another length; values or indices in host memory.
    pub fn set_tensor_rows(&self, stream: &CudaStream, name: &str, rows: &TensorRows<'_>) -> Result<(), CudaError> {
        self.device().check_same("stream", stream.device())?;
        let slot = self.variant().tensor_slot(name)?;
        let buffer = self.buffer_of(&slot)?;
        self.keep_captured(stream)?;
        self.bound.first_branch().0.replace_content(|| write_rows(stream, buffer, &slot, rows))
    }

    /// The device address of a parameter tensor, row-major. Other kernels may write it for later runs; the caller
    /// orders them with runs. The address is valid as long as this attention or a plan of it lives.
    ///
    /// # Errors
    ///
    /// The errors of [`CudaAttention::set_tensor`].
    pub fn tensor_ptr(&self, name: &str) -> Result<u64, CudaError> {
        Ok(self.buffer_of(&self.variant().tensor_slot(name)?)?.ptr())
    }

    /// Keeps the tensors, if another library captures what is about to be launched.
    fn keep_captured(&self, stream: &CudaStream) -> Result<(), CudaError> {
        stream.keep_captured(Name::of_device(self.device().ordinal()), || [self.bound.clone() as Kept])
    }

    /// The buffer of a parameter tensor. There is one branch, since unions have no tensor slots.
    fn buffer_of(&self, slot: &TensorSlot) -> Result<&CudaBuffer, CudaError> {
        let (args, variant) = self.bound.first_branch();
        if self.bound.has_defaults_over_lengths() {
            let why = "is beside one whose default follows the lengths of a batch, so that plans have copies of both: \
                give that one";
            return Err(ContentError::NoTensor { name: slot.name.to_owned(), why }.into());
        }
        args.tensor(variant, slot)
    }
}
