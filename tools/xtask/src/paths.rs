//! Folders of the workspace.

use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result};

/// Settings of cargo, in the root folder, for what is compiled and hardly run.
pub(crate) const UNOPTIMISED: &str = ".cargo/unoptimised.toml";

/// The workspace's root folder.
pub(crate) fn root() -> PathBuf {
    let here = Path::new(env!("CARGO_MANIFEST_DIR"));
    here.ancestors().nth(2).unwrap_or(here).to_owned()
}

/// The folder of cargo's build artefacts.
pub(crate) fn target_dir(root: &Path) -> Result<PathBuf> {
    match std::env::var_os("CARGO_TARGET_DIR") {
        Some(dir) => std::path::absolute(Path::new(&dir)).context("CARGO_TARGET_DIR"),
        None => Ok(root.join("target")),
    }
}

/// The `.jsonl` files of a folder, by name.
pub(crate) fn jsonl_files(dir: &Path) -> Result<Vec<PathBuf>> {
    let entries = std::fs::read_dir(dir).with_context(|| dir.display().to_string())?;
    let mut files: Vec<_> = entries.flatten().map(|entry| entry.path()).collect();
    files.retain(|path| path.extension().is_some_and(|x| x == "jsonl"));
    files.sort();
    Ok(files)
}
