//! Captured tensors whose content is replaced where it is.

use std::convert::Infallible;

use attn_core::expr::{ContentError, TensorContent, TensorSlot, Variant};
use cudarc::driver::result;

use super::{Attention, CudaError, DeviceBuffer, Stream, args::Args};
use crate::splice::variant::{Pointee, variant_args};

impl Attention {
    /// Replaces the content of a captured tensor, in the order of the stream: runs of every plan of this attention that come later there read it, and so do
    /// replays of what was captured of them. Nothing is planned or compiled. Values in device memory are copied by the device, which may be captured.
    ///
    /// # Errors
    ///
    /// [`ContentError`] for a tensor that cannot be replaced, or values of another type or number; values of the host while the stream is being
    /// captured, since they are read when the copy is replayed; a failure of the driver. Nothing is changed then.
    pub fn set_tensor(&self, stream: &Stream, name: &str, content: &TensorContent<'_>) -> Result<(), CudaError> {
        let device = self.device();
        device.check_same("stream", stream.device())?;
        let slot = self.variant().tensor_slot(name)?;
        slot.check(content)?;
        let buffer = self.buffer_of(&slot)?;
        match (content.as_host(), content.device_ptr()) {
            (Some(bytes), _) => buffer.write(stream, 0, bytes),
            (None, Some(ptr)) => {
                let _current = device.make_current()?;
                // SAFETY: the buffer is as long as the content, which its maker promised to be there.
                unsafe { result::memcpy_dtod_async(buffer.ptr(), ptr, slot.bytes, stream.raw()) }
                    .map_err(|e| CudaError::driver("copy a tensor", e))
            }
            (None, None) => Ok(()), // there is no third kind of memory
        }
    }

    /// Where kernels read a captured tensor, row-major: kernels of others may write it there, in the order of a stream, for runs that come later. The address
    /// stays while this attention lives, or a plan of it.
    ///
    /// # Errors
    ///
    /// As [`Attention::set_tensor`].
    pub fn tensor_ptr(&self, name: &str) -> Result<u64, CudaError> {
        Ok(self.buffer_of(&self.variant().tensor_slot(name)?)?.ptr())
    }

    /// There is one arm: slots are refused of unions.
    fn buffer_of(&self, slot: &TensorSlot) -> Result<&DeviceBuffer, CudaError> {
        let (args, variant) = self.first_arm();
        let not_there = |why| ContentError::NoTensor { name: slot.name.to_owned(), why };
        if self.has_defaults_over_lengths() {
            let why = "is beside one whose default follows the lengths of a batch, so that plans have copies of both: give that one";
            return Err(not_there(why).into());
        }
        Ok(args.tensor(variant, slot).ok_or_else(|| not_there("has no memory of its own"))?)
    }
}

impl Args {
    /// The memory of a captured tensor of the variant that these are the arguments of.
    fn tensor(&self, variant: &Variant, slot: &TensorSlot) -> Option<&DeviceBuffer> {
        let (address, mut before) = variant.content_address(slot)?;
        let (mut place, mut number) = (None, 0);
        // in the order in which they were uploaded
        let Ok(_) = variant_args(variant, |pointee| {
            if let Pointee::Table(bytes) = pointee
                && bytes.as_ptr() as usize == address
                && bytes.len() == slot.bytes
            {
                if before == 0 {
                    place.get_or_insert(number);
                }
                before = before.saturating_sub(1);
            }
            number += 1;
            Ok::<u64, Infallible>(0)
        });
        self.buffer(place?)
    }
}
