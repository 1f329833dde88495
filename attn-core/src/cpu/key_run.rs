//! Runs of consecutive keys within a block of the CPU backend.

/// Consecutive columns of a block that are consecutive keys; if a hook reads `kv_slot`, of one block of a key list.
#[derive(Clone, Copy, Debug)]
pub(super) struct KeyRun {
    pub(super) column: usize,
    pub(super) key: usize,
    pub(super) len: usize,
    /// Index of the block in its key list; 0 if no hook reads it.
    pub(super) slot: i32,
}

impl KeyRun {
    /// (column, key) of each key.
    pub(super) fn keys(&self) -> impl Iterator<Item = (usize, usize)> {
        (self.column..).zip(self.key..self.key + self.len)
    }
}
