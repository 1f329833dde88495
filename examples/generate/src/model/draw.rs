//! What follows the forward pass of a step: tokens are drawn from its logits.

use std::fmt;

use attn::{DeviceBuffer, Stream};

use super::{SampleRow, step_memory::StepMemory};
use crate::{Error, sampling::Sampled};

/// Draws tokens on a device. A step calls [`Draw::put`], [`Draw::launch`] (or it replays one of the same form) and
/// [`Draw::read`], in this order.
pub trait Draw: Send + fmt::Debug {
    /// Words that [`Draw::put`] takes for up to `rows` rows.
    fn words(&self, rows: usize) -> usize;

    /// Puts how the next launch draws, and uploads what is too large for a [`StepMemory`]. The rows from `rows.len()`
    /// to `padded` are padding. Returns the form of the launch: launches of as many rows and of one form do the same.
    ///
    /// # Errors
    ///
    /// More rows than there is memory for; parameters out of their ranges; failures of the device.
    fn put(
        &mut self,
        memory: &mut StepMemory,
        stream: &Stream,
        rows: &[SampleRow<'_>],
        padded: usize,
    ) -> Result<usize, Error>;

    /// Launches the draws from the first `rows` rows of the logits, in the form of the last [`Draw::put`]. It neither
    /// allocates nor waits nor decides by values, so a CUDA graph can capture it.
    ///
    /// # Errors
    ///
    /// Failures of the device.
    fn launch(
        &mut self,
        memory: &mut StepMemory,
        stream: &Stream,
        logits: &DeviceBuffer,
        rows: usize,
    ) -> Result<(), Error>;

    /// Waits for the stream, and returns the tokens of `rows`, those of the last [`Draw::put`].
    ///
    /// # Errors
    ///
    /// Failures of the device.
    fn read(&mut self, stream: &Stream, rows: &[SampleRow<'_>]) -> Result<Vec<Sampled>, Error>;
}

/// Draws nothing: for those who read the logits ([`Forward::logits`](super::forward::Forward)).
#[derive(Clone, Copy, Debug)]
pub struct NoDraw;

impl Draw for NoDraw {
    fn words(&self, _: usize) -> usize {
        0
    }

    fn put(&mut self, _: &mut StepMemory, _: &Stream, _: &[SampleRow<'_>], _: usize) -> Result<usize, Error> {
        Ok(0)
    }

    fn launch(&mut self, _: &mut StepMemory, _: &Stream, _: &DeviceBuffer, _: usize) -> Result<(), Error> {
        Ok(())
    }

    fn read(&mut self, stream: &Stream, _: &[SampleRow<'_>]) -> Result<Vec<Sampled>, Error> {
        stream.synchronize()?;
        Ok(Vec::new())
    }
}
