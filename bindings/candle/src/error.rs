//! Errors of attn-rs as errors of candle.

use std::fmt;

use candle_core::{Error, Result};

/// An error of attn-rs as one of candle, with the same text.
pub(crate) fn wrap(error: impl Into<attn::Error>) -> Error {
    Error::wrap(error.into())
}

/// An error of this crate.
pub(crate) fn refuse<T>(why: impl fmt::Display) -> Result<T> {
    Err(Error::msg(why))
}

/// Results of attn-rs as those of candle.
pub(crate) trait IntoCandle<T> {
    fn candle(self) -> Result<T>;
}

impl<T, E: Into<attn::Error>> IntoCandle<T> for std::result::Result<T, E> {
    fn candle(self) -> Result<T> {
        self.map_err(wrap)
    }
}
