//! Files of a bundle.

use std::{fs, path::Path};

use anyhow::Result;

/// Lets everybody run a script, where files have such a mode.
pub(super) fn make_executable(script: &Path) -> Result<()> {
    #[cfg(unix)]
    {
        use std::os::unix::fs::PermissionsExt as _;
        fs::set_permissions(script, fs::Permissions::from_mode(0o755))?;
    }
    #[cfg(not(unix))]
    let _ = script;
    Ok(())
}

/// Bytes of a file, or of all files in a folder.
pub(super) fn size(path: &Path) -> Result<u64> {
    let meta = fs::symlink_metadata(path)?;
    if !meta.is_dir() {
        return Ok(meta.len());
    }
    fs::read_dir(path)?.map(|e| size(&e?.path())).sum()
}
