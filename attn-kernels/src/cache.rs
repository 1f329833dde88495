//! Cubins are compiled once: a content-addressed cache on disk, below one in the process.
//!
//! The key of a cubin is the hash of its source, options and architecture ([`Key`]), so an entry is never stale. The
//! version of the compiler is metadata in the entry and not in the key: a start from the cache must not load a compiler
//! to ask for it. Who has a compiler anyway takes its own entries alone ([`CubinCache::of_compiler`]): builds ahead of
//! time, `attn compile`, and tests of what a compiler makes.
//!
//! # Failures
//!
//! The cache never fails. A kernel whose entry cannot be read is compiled; an entry that cannot be written is dropped.
//! Each kind of failure is reported once a process through `tracing::warn`, and counted in [`Stats`].
//!
//! # Security
//!
//! Checksums detect truncated and corrupt files; they do not authenticate. A user with write access to the folder can
//! make the process run their code on the GPU. So the folder is created for its owner alone (mode 0700), and one that
//! belongs to another user, or that others may write to, is not used ([`UnsafeFolder`]). Nor is such an entry, which
//! may be left from a time when the folder was open. Above the folder nothing is checked, on Windows nothing at all.
//!
//! # Environment
//!
//! `ATTN_CACHE_DIR` (the folder), `ATTN_CACHE_SIZE` (bytes, or with `K`, `M`, `G`; 512M unless set), `ATTN_CACHE=off`.

mod disk;
mod entry;
mod evict;
mod key;
mod location;
mod origin;
mod owner;
mod stats;

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::{Arc, LazyLock, Mutex, PoisonError, TryLockError};

pub use key::Key;
pub use origin::Origin;
pub use owner::UnsafeFolder;
pub use stats::{Counts, Stats};

use crate::compile::{Compiled, Compiler};
use disk::{Disk, Lock};

/// A cache of cubins. One per process is enough: [`CubinCache::global`].
#[derive(Debug)]
pub struct CubinCache {
    disk: Option<Disk>,
    memory: Mutex<HashMap<Key, Slot>>,
    stats: Stats,
    /// The compiler whose entries alone are taken; `None`: any.
    compiler: Option<String>,
}

/// One cubin in memory. Its lock keeps a second thread from compiling the same source.
type Slot = Arc<Mutex<Option<Arc<Compiled>>>>;

impl CubinCache {
    /// The cache that the environment variables describe.
    pub fn global() -> &'static CubinCache {
        static GLOBAL: LazyLock<CubinCache> = LazyLock::new(|| CubinCache::new(location::from_environment()));
        &GLOBAL
    }

    /// A cache in a folder, of at most `limit` bytes.
    #[must_use]
    pub fn at(dir: &Path, limit: u64) -> Self {
        Self::new(Some((dir.to_owned(), limit)))
    }

    /// A cache in memory alone.
    #[must_use]
    pub fn off() -> Self {
        Self::new(None)
    }

    fn new(location: Option<(PathBuf, u64)>) -> Self {
        let disk = location.map(|(dir, limit)| Disk::new(dir, limit));
        CubinCache { disk, memory: Mutex::default(), stats: Stats::default(), compiler: None }
    }

    /// The cache that the environment variables describe, with the entries of this compiler alone. Another's entries
    /// are compiled again, and replaced.
    #[must_use]
    pub fn of_compiler(compiler: &Compiler) -> Self {
        Self::new(location::from_environment()).with_compiler(compiler)
    }

    /// The same cache with the entries of this compiler alone.
    #[must_use]
    pub fn with_compiler(self, compiler: &Compiler) -> Self {
        CubinCache { compiler: Some(compiler.exact_name()), ..self }
    }

    /// Why the folder is not used, if another user could have written to it. Kernels are kept in memory alone then.
    pub fn refused(&self) -> Option<&UnsafeFolder> {
        self.disk.as_ref()?.refused()
    }

    /// The folder, unless the cache is in memory alone.
    pub fn dir(&self) -> Option<&Path> {
        self.disk.as_ref().map(Disk::dir)
    }

    /// Bytes that the folder may hold, unless the cache is in memory alone.
    pub fn limit(&self) -> Option<u64> {
        self.disk.as_ref().map(Disk::limit)
    }

    /// The entries on disk, with their keys: those of other commits too.
    pub fn entries(&self) -> impl Iterator<Item = (Key, Compiled)> {
        let keys = self.disk.iter().flat_map(|disk| disk.keys().map(move |key| (disk, key)));
        keys.filter_map(|(disk, key)| Some((key, disk.read(&key, &self.stats)?)))
    }

    /// The counters so far.
    pub fn stats(&self) -> Counts {
        self.stats.counts()
    }

    /// Tries to make and remove a file in the folder.
    ///
    /// # Errors
    ///
    /// The failure, when entries cannot be kept; its inner error is [`UnsafeFolder`] where the folder is refused.
    pub fn check_writable(&self) -> std::io::Result<()> {
        self.disk.as_ref().map_or(Ok(()), Disk::check_writable)
    }

    /// The cubin of a key: from memory, from disk, or compiled by `compile` and kept.
    ///
    /// Threads and processes that ask for the same key at the same time compile it once, unless waiting takes too long.
    ///
    /// # Errors
    ///
    /// The errors of `compile`; they are not cached.
    pub fn get_or_compile<E>(
        &self,
        key: &Key,
        compile: impl FnOnce() -> Result<Compiled, E>,
    ) -> Result<(Arc<Compiled>, Origin), E> {
        let slot = self.slot(key);
        let mut slot = slot.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(hit) = self.find(&mut slot, key) {
            return Ok(hit);
        }
        let lock = self.disk.as_ref().and_then(|disk| disk.lock(key, &self.stats));
        self.compile(&mut slot, key, lock, compile)
    }

    /// Does not wait, unlike [`CubinCache::get_or_compile`]: `None` while another thread or process compiles the
    /// kernel.
    pub fn try_get_or_compile<E>(
        &self,
        key: &Key,
        compile: impl FnOnce() -> Result<Compiled, E>,
    ) -> Option<Result<(Arc<Compiled>, Origin), E>> {
        let slot = self.slot(key);
        let mut slot = match slot.try_lock() {
            Ok(slot) => slot,
            Err(TryLockError::Poisoned(poisoned)) => poisoned.into_inner(),
            Err(TryLockError::WouldBlock) => return None,
        };
        if let Some(hit) = self.find(&mut slot, key) {
            return Some(Ok(hit));
        }
        let lock = match &self.disk {
            Some(disk) => disk.try_lock(key, &self.stats).ok()?,
            None => None,
        };
        Some(self.compile(&mut slot, key, lock, compile))
    }

    /// The slot of a key in memory.
    fn slot(&self, key: &Key) -> Slot {
        self.memory.lock().unwrap_or_else(PoisonError::into_inner).entry(*key).or_default().clone()
    }

    /// The cubin, from memory or from disk.
    fn find(&self, slot: &mut Option<Arc<Compiled>>, key: &Key) -> Option<(Arc<Compiled>, Origin)> {
        if let Some(compiled) = slot {
            self.stats.memory_hit();
            return Some((compiled.clone(), Origin::Memory));
        }
        let read = self.disk.as_ref()?.read(key, &self.stats)?;
        if self.compiler.as_ref().is_some_and(|compiler| *compiler != read.compiler) {
            self.stats.other_compiler();
            return None;
        }
        Some((slot.insert(Arc::new(read)).clone(), Origin::Disk))
    }

    /// Compiles under the lock of the key, unless another process did so before this one had the lock.
    fn compile<E>(
        &self,
        slot: &mut Option<Arc<Compiled>>,
        key: &Key,
        lock: Option<Lock>,
        compile: impl FnOnce() -> Result<Compiled, E>,
    ) -> Result<(Arc<Compiled>, Origin), E> {
        if let Some(hit) = self.find(slot, key) {
            return Ok(hit);
        }
        self.stats.compiled();
        let compiled = slot.insert(Arc::new(compile()?)).clone();
        if let Some(disk) = &self.disk {
            disk.keep(key, &compiled, &self.stats);
        }
        drop(lock);
        Ok((compiled, Origin::Compiled))
    }
}
