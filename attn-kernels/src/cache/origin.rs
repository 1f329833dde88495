//! Where a cubin came from.

use std::fmt;

/// Where a cubin came from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Origin {
    /// Embedded ahead of time.
    Prebuilt,
    /// The cache in memory.
    Memory,
    /// The cache on disk.
    Disk,
    /// Compiled now.
    Compiled,
}

impl fmt::Display for Origin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Origin::Prebuilt => "prebuilt",
            Origin::Memory => "memory",
            Origin::Disk => "disk",
            Origin::Compiled => "compiled",
        })
    }
}
