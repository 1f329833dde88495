//! NVRTC for the tests, which compile CUDA and need no GPU for it.

use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result, bail};
use xshell::{Shell, cmd};

use crate::wheel::python;

/// The wheel. Pinned: the tests' register and spill budgets hold for one compiler.
const WHEEL: &str = "nvidia-cuda-nvrtc==13.0.88";

/// An NVRTC library: `ATTN_NVRTC`, else the pinned wheel under `target/nvrtc`, fetched through pip the first time,
/// else (no pip, no network) that of an installed CUDA toolkit.
pub(crate) fn ensure(sh: &Shell, target: &Path) -> Result<PathBuf> {
    if let Some(path) = std::env::var_os("ATTN_NVRTC") {
        let path = PathBuf::from(path);
        if !path.exists() {
            bail!("ATTN_NVRTC = {} does not exist; unset it to have the wheel fetched", path.display());
        }
        return Ok(path);
    }
    let dir = target.join("nvrtc");
    if let Some(found) = library_below(&dir) {
        return Ok(found);
    }
    match install(sh, &dir) {
        Ok(path) => Ok(path),
        Err(why) => toolkit().with_context(|| {
            format!(
                "no NVRTC: fetching {WHEEL} failed ({why:#}), and no CUDA toolkit was found in CUDA_HOME or \
                 /usr/local/cuda; \
                 set ATTN_NVRTC to a libnvrtc.so"
            )
        }),
    }
}

fn install(sh: &Shell, dir: &Path) -> Result<PathBuf> {
    eprintln!("xtask: fetching {WHEEL} into {}", dir.display());
    let python = python();
    cmd!(sh, "{python} -m pip install --quiet --disable-pip-version-check --no-deps --upgrade --target {dir} {WHEEL}")
        .run()?;
    library_below(dir).with_context(|| format!("the wheel holds no libnvrtc.so below {}", dir.display()))
}

fn toolkit() -> Option<PathBuf> {
    let homes = ["CUDA_HOME", "CUDA_PATH"].iter().filter_map(std::env::var_os).map(PathBuf::from);
    homes.chain([PathBuf::from("/usr/local/cuda")]).find_map(|home| library_in(&home.join("lib64")))
}

/// `nvidia/*/lib/libnvrtc.so.*` below a `pip --target` folder.
fn library_below(dir: &Path) -> Option<PathBuf> {
    let mut flavours: Vec<_> = std::fs::read_dir(dir.join("nvidia")).ok()?.flatten().map(|e| e.path()).collect();
    flavours.sort();
    flavours.iter().find_map(|flavour| library_in(&flavour.join("lib")))
}

fn library_in(dir: &Path) -> Option<PathBuf> {
    let mut found: Vec<_> = std::fs::read_dir(dir)
        .ok()?
        .flatten()
        .map(|e| e.path())
        .filter(|p| {
            p.file_name().and_then(|n| n.to_str()).is_some_and(|n| n.starts_with("libnvrtc.so") && !n.contains(".alt"))
        })
        .collect();
    found.sort();
    found.pop()
}

#[cfg(test)]
mod tests {
    use super::library_below;

    #[test]
    fn the_library_of_a_wheel_is_found_and_not_its_helper() {
        let dir = tempfile::tempdir().expect("a folder");
        assert_eq!(library_below(dir.path()), None);
        let lib = dir.path().join("nvidia/cu13/lib");
        std::fs::create_dir_all(&lib).expect("made");
        for name in ["libnvrtc-builtins.so.13.0", "libnvrtc.so.13", "libnvrtc.alt.so.13"] {
            std::fs::write(lib.join(name), "").expect("written");
        }
        assert_eq!(library_below(dir.path()), Some(lib.join("libnvrtc.so.13")));
    }
}
