//! The cache on disk: `<dir>/<first two digits>/<key>.cubin`.
//!
//! An entry is written to a file of its own and renamed into place, so that readers see a whole one or none. A lock
//! beside it lets other processes wait for a compilation that is under way; failing to lock only means compiling twice.

use std::fs::{self, DirBuilder, File, OpenOptions, TryLockError};
use std::io::{self, Read as _, Write};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Once, OnceLock};
use std::thread;
use std::time::{Duration, Instant, SystemTime};

use super::owner::{UnsafeFolder, fault};
use super::stats::Stats;
use super::{Key, entry, evict};
use crate::compile::Compiled;

/// How long to wait for another process that compiles the same kernel.
const LOCK_TIMEOUT: Duration = Duration::from_secs(60);
const POLL: Duration = Duration::from_millis(10);
/// How stale the time of last use may be: writing it at every hit would cost more than it is worth.
const USE_GRANULARITY: Duration = Duration::from_secs(600);

#[derive(Debug)]
pub(super) struct Disk {
    dir: PathBuf,
    limit: u64,
    warned: Once,
    /// What is wrong with the folder's owner or mode, once it was seen.
    checked: OnceLock<Option<UnsafeFolder>>,
}

impl Disk {
    pub(super) fn new(dir: PathBuf, limit: u64) -> Self {
        Disk { dir, limit, warned: Once::new(), checked: OnceLock::new() }
    }

    pub(super) fn dir(&self) -> &Path {
        &self.dir
    }

    pub(super) fn limit(&self) -> u64 {
        self.limit
    }

    /// Why the folder is not used, if it is there and another user could have written to it. Decided once.
    pub(super) fn refused(&self) -> Option<&UnsafeFolder> {
        if let Some(checked) = self.checked.get() {
            return checked.as_ref();
        }
        let meta = fs::metadata(&self.dir).ok()?;
        let check = || {
            let refused = fault(&meta)?.of_folder(self.dir.clone());
            tracing::warn!(%refused, "the cache of compiled kernels is not used; they are kept in memory alone");
            Some(refused)
        };
        self.checked.get_or_init(check).as_ref()
    }

    /// Makes a folder of the cache, for its owner alone, unless the cache is refused.
    fn make_dir(&self, dir: &Path) -> io::Result<()> {
        make_dir(dir)?;
        self.refused().map_or(Ok(()), |refused| Err(refused.clone().into()))
    }

    pub(super) fn check_writable(&self) -> io::Result<()> {
        self.make_dir(&self.dir)?;
        let probe = self.dir.join(format!("probe-{}", std::process::id()));
        File::create(&probe)?;
        fs::remove_file(probe)
    }

    fn path(&self, key: &Key, extension: &str) -> PathBuf {
        let name = key.to_string();
        self.dir.join(&name[..2]).join(format!("{name}.{extension}"))
    }

    /// The entry of a key, if there is one and it is whole.
    pub(super) fn read(&self, key: &Key, stats: &Stats) -> Option<Compiled> {
        if self.refused().is_some() {
            return None;
        }
        let path = self.path(key, "cubin");
        let file = match read_own(&path) {
            Ok(Some(file)) => file,
            Ok(None) => {
                stats.foreign();
                tracing::warn!(path = %path.display(), "another user may write a cached kernel; it is compiled again");
                return None; // it is replaced later, which only the owner of the folder can do
            }
            Err(error) if error.kind() == io::ErrorKind::NotFound => return None,
            Err(error) => {
                self.warn_once(stats, "a cached kernel could not be read", &error);
                return None;
            }
        };
        let Some(compiled) = entry::decode(key, &file) else {
            stats.damaged();
            tracing::warn!(path = %path.display(), "a cached kernel is damaged; it is compiled again");
            let _ = fs::remove_file(&path); // a file that stays is overwritten later
            return None;
        };
        stats.disk_hit();
        touch(&path);
        Some(compiled)
    }

    /// The keys of the entries.
    pub(super) fn keys(&self) -> impl Iterator<Item = Key> {
        let entries = evict::list(&self.dir).flat_map(|shard| evict::list(&shard));
        let entries = entries.filter(|path| path.extension().is_some_and(|extension| extension == "cubin"));
        entries.filter_map(|path| Key::from_hex(path.file_stem()?.to_str()?))
    }

    /// Writes an entry, and evicts others where the folder exceeds its limit.
    pub(super) fn keep(&self, key: &Key, compiled: &Compiled, stats: &Stats) {
        if self.refused().is_some() {
            return;
        }
        match self.write(key, compiled) {
            Ok(()) => stats.evicted(evict::keep_within(&self.dir, self.limit)),
            Err(error) => self.warn_once(stats, "a compiled kernel could not be kept", &error),
        }
    }

    fn write(&self, key: &Key, compiled: &Compiled) -> io::Result<()> {
        static NEXT: AtomicU64 = AtomicU64::new(0);
        let path = self.path(key, "cubin");
        self.make_dir(path.parent().unwrap_or(&self.dir))?;
        let unique = NEXT.fetch_add(1, Ordering::Relaxed);
        let temporary = path.with_extension(format!("tmp-{}-{unique}", std::process::id()));
        let written = create_own(&temporary)
            .and_then(|mut file| file.write_all(&entry::encode(key, compiled)).and_then(|()| file.sync_data()))
            .and_then(|()| fs::rename(&temporary, &path));
        if written.is_err() {
            let _ = fs::remove_file(&temporary);
        }
        written
    }

    /// Locks a key, and waits for another process that holds the lock. `None` if that fails or takes too long, which at
    /// worst compiles the kernel twice.
    pub(super) fn lock(&self, key: &Key, stats: &Stats) -> Option<Lock> {
        let started = Instant::now();
        loop {
            match self.try_lock(key, stats) {
                Ok(lock) => return lock,
                Err(Busy) if started.elapsed() < LOCK_TIMEOUT => thread::sleep(POLL),
                Err(Busy) => return None,
            }
        }
    }

    /// Takes the lock of a kernel if it is free; [`Disk::lock`] waits for it.
    pub(super) fn try_lock(&self, key: &Key, stats: &Stats) -> Result<Option<Lock>, Busy> {
        if self.refused().is_some() {
            return Ok(None);
        }
        let path = self.path(key, "lock");
        let opened = self
            .make_dir(path.parent().unwrap_or(&self.dir))
            .and_then(|()| OpenOptions::new().create(true).truncate(false).write(true).open(&path));
        let file = match opened {
            Ok(file) => file,
            Err(error) => {
                self.warn_once(stats, "the folder of compiled kernels cannot be written", &error);
                return Ok(None);
            }
        };
        match file.try_lock() {
            Ok(()) => Ok(Some(Lock { path, _file: file })),
            Err(TryLockError::WouldBlock) => Err(Busy),
            Err(TryLockError::Error(error)) => {
                self.warn_once(stats, "a compiled kernel cannot be locked", &error);
                Ok(None)
            }
        }
    }

    fn warn_once(&self, stats: &Stats, what: &str, error: &io::Error) {
        stats.io_failure();
        self.warned.call_once(|| {
            tracing::warn!(dir = %self.dir.display(), %error, "{what}; set ATTN_CACHE_DIR to a folder that can be \
                 written");
        });
    }
}

/// Another process holds the lock of a key.
pub(super) struct Busy;

/// A lock on a key during its compilation.
pub(super) struct Lock {
    path: PathBuf,
    _file: File,
}

impl Drop for Lock {
    fn drop(&mut self) {
        // A process that has opened the file gets the lock of an unlinked file, while a third process may lock a new
        // file. Both find the entry written.
        let _ = fs::remove_file(&self.path);
    }
}

/// The content of a file; `None` if another user could have written it.
fn read_own(path: &Path) -> io::Result<Option<Vec<u8>>> {
    let mut file = File::open(path)?;
    let meta = file.metadata()?; // of the open file: a path may lead elsewhere a moment later
    if fault(&meta).is_some() {
        return Ok(None);
    }
    let mut bytes = Vec::with_capacity(usize::try_from(meta.len()).unwrap_or(0));
    file.read_to_end(&mut bytes)?;
    Ok(Some(bytes))
}

/// Makes a file that its owner alone may read and write, whatever the umask.
fn create_own(path: &Path) -> io::Result<File> {
    let mut options = OpenOptions::new();
    options.write(true).create_new(true);
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    options.open(path)
}

fn make_dir(dir: &Path) -> io::Result<()> {
    let mut builder = DirBuilder::new();
    builder.recursive(true);
    #[cfg(unix)]
    std::os::unix::fs::DirBuilderExt::mode(&mut builder, 0o700);
    builder.create(dir)
}

/// Marks an entry as used, for eviction. The access time does not serve, because most systems do not record it.
fn touch(path: &Path) {
    let now = SystemTime::now();
    let fresh = fs::metadata(path)
        .and_then(|m| m.modified())
        .is_ok_and(|t| now.duration_since(t).is_ok_and(|age| age < USE_GRANULARITY));
    if !fresh && let Ok(file) = OpenOptions::new().append(true).open(path) {
        let _ = file.set_modified(now);
    }
}
