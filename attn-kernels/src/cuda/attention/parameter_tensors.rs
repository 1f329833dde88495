//! Parameter tensors whose content is replaced in place.

use std::{convert::Infallible, sync::Arc};

use attn_core::{
    expr::{ContentError, TensorContent, TensorSlot, Variant},
    ops::TensorRows,
};
use cudarc::driver::result;

use crate::{
    cuda::{
        CudaAttention, CudaBuffer, CudaError, CudaStream,
        driver::{
            captured::{Kept, Name},
            uses::Access,
        },
        memory::args::Args,
        ops::{CudaKvTransform, write_rows},
    },
    splice::variant::{Pointee, variant_args},
};

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
    /// As [`CudaAttention::set_tensor`]; rows of another length; values or indices in host memory.
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
    /// As [`CudaAttention::set_tensor`].
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

impl CudaKvTransform {
    /// As [`CudaAttention::set_tensor`], for later appends through the transform.
    ///
    /// # Errors
    ///
    /// As [`CudaAttention::set_tensor`].
    pub fn set_tensor(
        self: &Arc<Self>,
        stream: &CudaStream,
        name: &str,
        content: &TensorContent<'_>,
    ) -> Result<(), CudaError> {
        self.device().check_same("stream", stream.device())?;
        self.keep_captured(stream)?;
        let variant = self.transform().variant();
        let slot = variant.tensor_slot(name)?;
        slot.check(content)?;
        self.args().replace(stream, self.args().tensor(variant, &slot)?, content)
    }

    /// As [`CudaAttention::set_tensor_rows`], for later appends through the transform.
    ///
    /// # Errors
    ///
    /// As [`CudaAttention::set_tensor_rows`].
    pub fn set_tensor_rows(
        self: &Arc<Self>,
        stream: &CudaStream,
        name: &str,
        rows: &TensorRows<'_>,
    ) -> Result<(), CudaError> {
        self.device().check_same("stream", stream.device())?;
        self.keep_captured(stream)?;
        let variant = self.transform().variant();
        let slot = variant.tensor_slot(name)?;
        let buffer = self.args().tensor(variant, &slot)?;
        self.args().replace_content(|| write_rows(stream, buffer, &slot, rows))
    }
}

impl Args {
    /// Replaces the content of one of the tensors.
    fn replace(&self, stream: &CudaStream, buffer: &CudaBuffer, content: &TensorContent<'_>) -> Result<(), CudaError> {
        self.replace_content(|| match (content.as_host(), content.device_ptr()) {
            (Some(bytes), _) => buffer.write_shared(stream, 0, bytes),
            (None, Some(ptr)) => {
                let _current = stream.device().make_current()?;
                let _submission = stream.submission();
                buffer.uses().submit(stream.state(), Access::Write, || {
                    // SAFETY: the buffer is as long as the content, which its maker promised to be there.
                    unsafe { result::memcpy_dtod_async(buffer.ptr(), ptr, content.byte_len(), stream.raw()) }
                        .map_err(|e| CudaError::driver("copy a tensor", e))
                })
            }
            (None, None) => Ok(()), // there is no third kind of memory
        })
    }

    /// The buffer of a parameter tensor of `variant`, which these are the arguments of.
    fn tensor(&self, variant: &Variant, slot: &TensorSlot) -> Result<&CudaBuffer, CudaError> {
        let why = "has no memory of its own";
        let not_there = || ContentError::NoTensor { name: slot.name.to_owned(), why }.into();
        self.found(variant, slot).ok_or_else(not_there)
    }

    fn found(&self, variant: &Variant, slot: &TensorSlot) -> Option<&CudaBuffer> {
        let (address, mut before) = variant.content_address(slot)?;
        let (mut index, mut number) = (None, 0);
        // in the order in which they were uploaded
        let Ok(_) = variant_args(variant, |pointee| {
            if let Pointee::Table(bytes) = pointee
                && bytes.as_ptr() as usize == address
                && bytes.len() == slot.bytes
            {
                if before == 0 {
                    index.get_or_insert(number);
                }
                before = before.saturating_sub(1);
            }
            number += 1;
            Ok::<u64, Infallible>(0)
        });
        self.buffer(index?)
    }
}
