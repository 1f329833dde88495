//! The browser in which the chat page of `examples/generate` is tested.

use anyhow::{Context as _, Result};
use xshell::{Shell, cmd};

/// In CI, installs Debian's Chromium with its WebDriver where it is missing and apt may be asked. Without it the tests
/// of the page are skipped; in CI they fail.
pub(crate) fn ensure(sh: &Shell) -> Result<()> {
    let there = cmd!(sh, "chromedriver --version").quiet().ignore_stdout().ignore_stderr().run().is_ok();
    let ci = std::env::var_os("CI").is_some();
    if there || !ci || !is_root(sh) {
        return Ok(());
    }
    eprintln!("xtask: installing chromium and chromium-driver");
    let _noninteractive = sh.push_env("DEBIAN_FRONTEND", "noninteractive");
    cmd!(sh, "apt-get update -qq").quiet().run().context("the lists of packages could not be fetched")?;
    let install = cmd!(sh, "apt-get install -qq -y --no-install-recommends chromium chromium-driver");
    install.quiet().ignore_stdout().run().context("chromium could not be installed")
}

fn is_root(sh: &Shell) -> bool {
    cmd!(sh, "id -u").quiet().ignore_stderr().read().is_ok_and(|id| id.trim() == "0")
}
