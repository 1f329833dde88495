//! Where many cubins came from.

#[cfg(feature = "cuda")]
use crate::cache::Origin;

/// How many kernels were prepared, by where their cubins came from.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct PrepareReport {
    /// Embedded ahead of time.
    pub prebuilt: usize,
    /// From the cache in memory.
    pub memory: usize,
    /// From the cache on disk.
    pub disk: usize,
    /// Compiled now.
    pub compiled: usize,
}

impl PrepareReport {
    /// All kernels.
    #[must_use]
    pub fn kernels(&self) -> usize {
        self.prebuilt + self.memory + self.disk + self.compiled
    }

    /// Counts a kernel.
    #[cfg(feature = "cuda")] // kernels are prepared for a device
    pub(crate) fn count(&mut self, origin: Origin) {
        *match origin {
            Origin::Prebuilt => &mut self.prebuilt,
            Origin::Memory => &mut self.memory,
            Origin::Disk => &mut self.disk,
            Origin::Compiled => &mut self.compiled,
        } += 1;
    }
}
