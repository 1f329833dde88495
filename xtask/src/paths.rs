//! Folders of the workspace.

use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result};

/// The workspace's root folder.
pub(crate) fn root() -> PathBuf {
    let here = Path::new(env!("CARGO_MANIFEST_DIR"));
    here.parent().unwrap_or(here).to_owned()
}

/// The folder of cargo's build artefacts.
pub(crate) fn target_dir(root: &Path) -> Result<PathBuf> {
    match std::env::var_os("CARGO_TARGET_DIR") {
        Some(dir) => std::path::absolute(Path::new(&dir)).context("CARGO_TARGET_DIR"),
        None => Ok(root.join("target")),
    }
}
