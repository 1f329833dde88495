//! `cargo xtask install-c`: the C library where C programs look for it.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result};
use xshell::{Shell, cmd};

use crate::paths::target_dir;

/// The libraries that the shared and the static library need on Linux.
const SYSTEM: &str = "-lm -lpthread -ldl";

#[derive(clap::Args)]
pub(crate) struct Args {
    /// Where `include` and `lib` are.
    #[arg(long, default_value = "/usr/local")]
    prefix: PathBuf,
}

/// Builds attn-c and copies its header, its libraries and a file for `pkg-config`.
pub(crate) fn run(sh: &Shell, root: &Path, args: &Args) -> Result<()> {
    cmd!(sh, "cargo build --release -p attn-c").run()?;
    let prefix = std::path::absolute(&args.prefix)?;
    let (lib, include, release) = (prefix.join("lib"), prefix.join("include"), target_dir(root)?.join("release"));
    fs::create_dir_all(lib.join("pkgconfig"))?;
    fs::create_dir_all(&include)?;
    let copy = |from: PathBuf, to: PathBuf| {
        fs::copy(&from, &to).map(drop).with_context(|| format!("{} to {}", from.display(), to.display()))
    };
    copy(root.join("bindings/c/include/attn.h"), include.join("attn.h"))?;
    for name in ["libattn_c.so", "libattn_c.a"] {
        copy(release.join(name), lib.join(name))?;
    }
    fs::write(lib.join("pkgconfig/attn.pc"), package(&prefix))?;
    println!("installed below {}; compile with `pkg-config --cflags --libs attn`", prefix.display());
    Ok(())
}

/// The file for `pkg-config`.
fn package(prefix: &Path) -> String {
    let (prefix, version) = (prefix.display(), env!("CARGO_PKG_VERSION"));
    format!(
        "prefix={prefix}\nincludedir=${{prefix}}/include\nlibdir=${{prefix}}/lib\n\nName: attn\n\
         Description: attention variants over ragged and paged KV, on the GPU and the CPU\nVersion: {version}\n\
         Cflags: -I${{includedir}}\nLibs: -L${{libdir}} -lattn_c\nLibs.private: {SYSTEM}\n"
    )
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    #[test]
    fn pkg_config_finds_header_and_library() {
        let text = super::package(Path::new("/opt/attn"));
        assert!(text.starts_with("prefix=/opt/attn\n"), "{text}");
        for line in ["Cflags: -I${includedir}", "Libs: -L${libdir} -lattn_c", "Name: attn"] {
            assert!(text.lines().any(|of| of == line), "{line}: {text}");
        }
    }
}
