//! Counters of the cache.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// Counters of a cache.
#[derive(Debug, Default)]
pub struct Stats {
    memory_hits: AtomicU64,
    disk_hits: AtomicU64,
    compiled: AtomicU64,
    damaged: AtomicU64,
    foreign: AtomicU64,
    other_compiler: AtomicU64,
    evicted: AtomicU64,
    io_failures: AtomicU64,
}

/// The counters at one moment.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Cubins found in memory.
    pub memory_hits: u64,
    /// Cubins found on disk.
    pub disk_hits: u64,
    /// Compilations, failed ones included.
    pub compiled: u64,
    /// Entries found truncated or corrupt.
    pub damaged: u64,
    /// Entries that another user owns or may write; they are not used.
    pub foreign: u64,
    /// Entries of another compiler, where those of one compiler are asked for.
    pub other_compiler: u64,
    /// Entries removed to keep within the limit.
    pub evicted: u64,
    /// Failures to read or write.
    pub io_failures: u64,
}

impl Stats {
    pub(super) fn counts(&self) -> Counts {
        Counts {
            memory_hits: self.memory_hits.load(Relaxed),
            disk_hits: self.disk_hits.load(Relaxed),
            compiled: self.compiled.load(Relaxed),
            damaged: self.damaged.load(Relaxed),
            foreign: self.foreign.load(Relaxed),
            other_compiler: self.other_compiler.load(Relaxed),
            evicted: self.evicted.load(Relaxed),
            io_failures: self.io_failures.load(Relaxed),
        }
    }
    pub(super) fn memory_hit(&self) {
        self.memory_hits.fetch_add(1, Relaxed);
    }
    pub(super) fn disk_hit(&self) {
        self.disk_hits.fetch_add(1, Relaxed);
    }
    pub(super) fn compiled(&self) {
        self.compiled.fetch_add(1, Relaxed);
    }
    pub(super) fn damaged(&self) {
        self.damaged.fetch_add(1, Relaxed);
    }
    pub(super) fn foreign(&self) {
        self.foreign.fetch_add(1, Relaxed);
    }
    pub(super) fn other_compiler(&self) {
        self.other_compiler.fetch_add(1, Relaxed);
    }
    pub(super) fn evicted(&self, entries: u64) {
        self.evicted.fetch_add(entries, Relaxed);
    }
    pub(super) fn io_failure(&self) {
        self.io_failures.fetch_add(1, Relaxed);
    }
}
