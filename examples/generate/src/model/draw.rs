//! What follows the forward pass of a step: tokens are drawn from its logits.

use std::fmt;

use attn::{DeviceBuffer, Stream};

use super::SampleRow;
use crate::{Error, sampling::Sampled};

/// Draws tokens on a device, in memory of its own. A step calls [`Draw::upload`], [`Draw::launch`] (or it replays
/// one), [`Draw::launched`] and [`Draw::read`], in this order.
pub trait Draw: Send + fmt::Debug {
    /// Copies to the device how the next launch draws. The rows from `rows.len()` to `padded` are padding.
    ///
    /// # Errors
    ///
    /// More rows than there is memory for; parameters out of their ranges; failures of the device.
    fn upload(&mut self, stream: &Stream, rows: &[SampleRow<'_>], padded: usize) -> Result<(), Error>;

    /// Launches the draws from the first `rows` rows of the logits. It neither allocates nor waits nor decides by
    /// values, so a CUDA graph can capture it.
    ///
    /// # Errors
    ///
    /// Failures of the device.
    fn launch(&mut self, stream: &Stream, logits: &DeviceBuffer, rows: usize) -> Result<(), Error>;

    /// A launch for `rows` rows is under way, by itself or in a graph.
    fn launched(&mut self, rows: usize) {
        let _ = rows;
    }

    /// Draws what a graph cannot, waits for the stream, and returns the tokens of `rows`, those of the upload.
    ///
    /// # Errors
    ///
    /// Failures of the device.
    fn read(&mut self, stream: &Stream, logits: &DeviceBuffer, rows: &[SampleRow<'_>]) -> Result<Vec<Sampled>, Error>;
}

/// Draws nothing: for those who read the logits ([`Forward::logits`](super::forward::Forward)).
#[derive(Clone, Copy, Debug)]
pub struct NoDraw;

impl Draw for NoDraw {
    fn upload(&mut self, _: &Stream, _: &[SampleRow<'_>], _: usize) -> Result<(), Error> {
        Ok(())
    }

    fn launch(&mut self, _: &Stream, _: &DeviceBuffer, _: usize) -> Result<(), Error> {
        Ok(())
    }

    fn read(&mut self, stream: &Stream, _: &DeviceBuffer, _: &[SampleRow<'_>]) -> Result<Vec<Sampled>, Error> {
        stream.synchronize()?;
        Ok(Vec::new())
    }
}
