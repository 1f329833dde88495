//! The device that a text names: `cpu`, `cuda`, `cuda:1`.

use std::fmt;

use crate::error::Failure;

/// A device.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) enum Location {
    Cpu,
    Cuda(u32),
}

impl fmt::Display for Location {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Location::Cpu => f.write_str("cpu"),
            Location::Cuda(ordinal) => write!(f, "cuda:{ordinal}"),
        }
    }
}

impl Location {
    /// `cpu`, `cuda` or `cuda:1`.
    pub(crate) fn parse(text: &str) -> Result<Self, Failure> {
        match text.split_once(':') {
            None if text == "cpu" => Ok(Location::Cpu),
            None if text == "cuda" => Ok(Location::Cuda(0)),
            Some(("cpu", _)) => Ok(Location::Cpu),
            Some(("cuda", ordinal)) if ordinal.parse::<u32>().is_ok() => {
                Ok(Location::Cuda(ordinal.parse().unwrap_or(0)))
            }
            _ => Err(Failure::argument(format!("the device is `{text}`; there are `cpu`, `cuda` and `cuda:N`"))),
        }
    }
}
