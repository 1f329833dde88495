//! Eviction of the least recently used entries, which keeps the cache within its limit.

use std::fs::{self, OpenOptions};
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

/// Leftovers of processes that died are removed after this long.
const ABANDONED: Duration = Duration::from_secs(3600);

struct Found {
    path: PathBuf,
    bytes: u64,
    used: SystemTime,
}

/// Removes entries until the rest fits; returns their number. Only one process evicts at a time.
pub(super) fn keep_within(dir: &Path, limit: u64) -> u64 {
    let Ok(lock) = OpenOptions::new().create(true).truncate(false).write(true).open(dir.join("evict.lock")) else {
        return 0;
    };
    if lock.try_lock().is_err() {
        return 0;
    }
    let mut entries = Vec::new();
    for shard in list(dir).filter(|p| p.is_dir()) {
        for path in list(&shard) {
            let Ok(meta) = fs::metadata(&path) else { continue };
            let used = meta.modified().unwrap_or(SystemTime::UNIX_EPOCH);
            if path.extension().is_some_and(|e| e == "cubin") {
                entries.push(Found { path, bytes: meta.len(), used });
            } else if used.elapsed().is_ok_and(|age| age > ABANDONED) {
                let _ = fs::remove_file(path);
            }
        }
    }
    let mut total: u64 = entries.iter().map(|e| e.bytes).sum();
    if total <= limit {
        return 0;
    }
    entries.sort_by_key(|e| e.used);
    // evicts a little more than needed, so that the next entry does not evict again
    let target = limit - limit / 8;
    let mut removed = 0;
    for entry in entries {
        if total <= target {
            break;
        }
        if fs::remove_file(&entry.path).is_ok() {
            total -= entry.bytes;
            removed += 1;
        }
    }
    removed
}

pub(super) fn list(dir: &Path) -> impl Iterator<Item = PathBuf> + use<> {
    fs::read_dir(dir).into_iter().flatten().filter_map(|e| Some(e.ok()?.path()))
}
