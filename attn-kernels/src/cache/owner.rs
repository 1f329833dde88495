//! Who may write to the cache: what another user could have written is not run.

use std::{fs::Metadata, io, path::PathBuf};

/// Why the folder of a cache is not used.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum UnsafeFolder {
    /// It belongs to another user.
    #[error(
        "{} belongs to user {owner}, and this process runs as user {user}; set ATTN_CACHE_DIR to a folder of your own",
        .dir.display()
    )]
    Foreign {
        /// The folder.
        dir: PathBuf,
        /// The number of its owner.
        owner: u32,
        /// The number of the user of this process.
        user: u32,
    },
    /// Users other than its owner may write to it.
    #[error(
        "other users may write to {} (mode {mode:03o}); run `chmod go-w {}`, or set ATTN_CACHE_DIR to a folder that \
         only you can write",
        .dir.display(),
        .dir.display()
    )]
    WritableByOthers {
        /// The folder.
        dir: PathBuf,
        /// Its permissions.
        mode: u32,
    },
}

impl From<UnsafeFolder> for io::Error {
    fn from(error: UnsafeFolder) -> Self {
        io::Error::new(io::ErrorKind::PermissionDenied, error)
    }
}

/// What is wrong with the owner or the mode of a file or folder.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(not(unix), allow(dead_code))] // found on Unix alone
pub(super) enum Fault {
    Foreign { owner: u32, user: u32 },
    WritableByOthers { mode: u32 },
}

impl Fault {
    pub(super) fn of_folder(self, dir: PathBuf) -> UnsafeFolder {
        match self {
            Fault::Foreign { owner, user } => UnsafeFolder::Foreign { dir, owner, user },
            Fault::WritableByOthers { mode } => UnsafeFolder::WritableByOthers { dir, mode },
        }
    }
}

/// Whether anybody but the user of this process could have written a file or folder. The superuser always could.
#[cfg(unix)]
pub(super) fn fault(meta: &Metadata) -> Option<Fault> {
    use std::os::unix::fs::MetadataExt as _;
    // the group's bits cover access lists too
    const WRITE_OF_OTHERS: u32 = 0o022;
    let (owner, user, mode) = (meta.uid(), rustix::process::geteuid().as_raw(), meta.mode() & 0o7777);
    if owner != user {
        return Some(Fault::Foreign { owner, user });
    }
    (mode & WRITE_OF_OTHERS != 0).then_some(Fault::WritableByOthers { mode })
}

/// Elsewhere folders of a user's profile are closed to others by default, and nothing is checked.
#[cfg(not(unix))]
pub(super) fn fault(_: &Metadata) -> Option<Fault> {
    None
}
