//! The search for NVRTC. Nothing below the working folder is opened unless `ATTN_NVRTC` names it: a folder that
//! somebody else wrote, such as a checkout, could hold a library, and to open a library is to run its code.

use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::{env, fs};

use super::{api, library::Nvrtc};
use crate::compile::NoCompiler;

/// Names to search on the loader's path, newest first.
const NAMES: &[&str] = if cfg!(windows) {
    &["nvrtc64_130_0.dll", "nvrtc64_120_0.dll"]
} else {
    &["libnvrtc.so.13", "libnvrtc.so.12", "libnvrtc.so"]
};

/// Folders of a CUDA toolkit.
const IN_TOOLKIT: &[&str] = &["lib64", "lib", "targets/x86_64-linux/lib", "targets/sbsa-linux/lib", "bin/x64", "bin"];

/// Folders of the Python packages, below `site-packages`: CUDA 13's, CUDA 12's.
const IN_SITE_PACKAGES: &[&str] =
    &["nvidia/cu13/lib", "nvidia/cu13/bin/x86_64", "nvidia/cuda_nvrtc/lib", "nvidia/cuda_nvrtc/bin"];

pub(super) fn find() -> Result<Nvrtc, NoCompiler> {
    let mut tried = Vec::new();
    if let Some(named) = env::var_os("ATTN_NVRTC").filter(|v| !v.is_empty()) {
        let named = PathBuf::from(named);
        let found = if named.is_dir() { in_folder(&named, &mut tried) } else { load(&named, &mut tried) };
        return found.ok_or_else(|| {
            let why = match named.exists() {
                false => "there is no such file or folder".to_owned(),
                true if tried.is_empty() => "there is no NVRTC in it".to_owned(),
                true => tried.join("; "),
            };
            NoCompiler::one(format!("ATTN_NVRTC={}: {why}", named.display()))
        });
    }
    for name in NAMES {
        // most names are not on the loader's path, so a miss is not reported
        if let Some(nvrtc) = load(Path::new(name), &mut Vec::new()) {
            return Ok(nvrtc);
        }
    }
    // where toolkits are on Windows: its loader would search the working folder before
    let on_path = env::var_os("PATH").filter(|_| cfg!(windows)).map(|path| absolute(&path)).unwrap_or_default();
    for folder in on_path
        .into_iter()
        .chain(toolkits())
        .chain(from_environments())
        .chain(std::iter::once_with(from_python).flatten())
    {
        if let Some(nvrtc) = in_folder(&folder, &mut tried) {
            return Ok(nvrtc);
        }
    }
    tried.push(
        "NVRTC is not on the loader's path, under CUDA_HOME, CUDA_PATH or /usr/local/cuda, or among Python's packages"
            .into(),
    );
    Err(NoCompiler { tried })
}

/// Loads the newest NVRTC of a folder, after its builtins.
fn in_folder(folder: &Path, tried: &mut Vec<String>) -> Option<Nvrtc> {
    let names: Vec<String> =
        fs::read_dir(folder).ok()?.filter_map(|e| e.ok()?.file_name().into_string().ok()).collect();
    let mut libraries: Vec<&String> = names.iter().filter(|n| is_nvrtc(n)).collect();
    libraries.sort_by_key(|n| std::cmp::Reverse(numbers(n)));
    libraries.into_iter().find_map(|name| load(&folder.join(name), tried))
}

fn load(path: &Path, tried: &mut Vec<String>) -> Option<Nvrtc> {
    if let Some(folder) = path.parent().filter(|p| !p.as_os_str().is_empty()) {
        for entry in fs::read_dir(folder).ok()?.filter_map(Result::ok) {
            if entry.file_name().to_str().is_some_and(is_builtins) {
                api::preload_builtins(&entry.path());
            }
        }
    }
    // SAFETY: NVRTC runs no initialisers with requirements on the caller.
    match unsafe { api::Api::load(path, true) }.and_then(|api| Nvrtc::open(path.to_owned(), api)) {
        Ok(nvrtc) => {
            tracing::debug!(?nvrtc, "found NVRTC");
            Some(nvrtc)
        }
        Err(reason) => {
            tried.push(format!("{} does not load ({reason})", path.display()));
            None
        }
    }
}

fn is_nvrtc(name: &str) -> bool {
    name.starts_with("libnvrtc.so") || (name.starts_with("nvrtc64_") && name.ends_with("_0.dll"))
}

fn is_builtins(name: &str) -> bool {
    (name.starts_with("libnvrtc-builtins.so") || name.starts_with("nvrtc-builtins64_")) && !name.contains(".alt.")
}

/// The numbers in a file name, to compare versions.
fn numbers(name: &str) -> Vec<u32> {
    name.split(|c: char| !c.is_ascii_digit()).filter_map(|n| n.parse().ok()).collect()
}

/// The folders that variables name. A relative one is left out: it names whatever the working folder holds.
fn named(variables: [&str; 2]) -> impl Iterator<Item = PathBuf> {
    variables.into_iter().filter_map(env::var_os).map(PathBuf::from).filter(|folder| folder.is_absolute())
}

/// The folders of a list that are absolute.
fn absolute(list: &OsStr) -> Vec<PathBuf> {
    env::split_paths(list).filter(|folder| folder.is_absolute()).collect()
}

fn toolkits() -> impl Iterator<Item = PathBuf> {
    named(["CUDA_HOME", "CUDA_PATH"])
        .chain([PathBuf::from("/usr/local/cuda")])
        .flat_map(|root| IN_TOOLKIT.iter().map(move |below| root.join(below)))
}

/// The packages of the active Python environment.
fn from_environments() -> impl Iterator<Item = PathBuf> {
    named(["VIRTUAL_ENV", "CONDA_PREFIX"]).flat_map(|root| {
        let lib = root.join("lib");
        let versions =
            fs::read_dir(lib).into_iter().flatten().filter_map(|e| Some(e.ok()?.path().join("site-packages")));
        versions.chain([root.join("Lib/site-packages")]).flat_map(below_site_packages).collect::<Vec<_>>()
    })
}

/// The packages of the Python on the PATH. The last resort, since it starts a process. `-I` keeps modules of the
/// working folder out of it.
fn from_python() -> Vec<PathBuf> {
    let script =
        "import site, sysconfig; print('\\n'.join([sysconfig.get_paths()['purelib'], site.getusersitepackages()]))";
    ["python3", "python"]
        .into_iter()
        .find_map(|python| Command::new(python).args(["-I", "-c", script]).output().ok().filter(|o| o.status.success()))
        .map(|output| {
            let text = String::from_utf8_lossy(&output.stdout).into_owned();
            text.lines()
                .map(PathBuf::from)
                .filter(|folder| folder.is_absolute())
                .flat_map(below_site_packages)
                .collect()
        })
        .unwrap_or_default()
}

fn below_site_packages(root: PathBuf) -> impl Iterator<Item = PathBuf> {
    IN_SITE_PACKAGES.iter().map(move |below| root.join(below))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn relative_folders_of_a_list_are_left_out() {
        let [first, second] = if cfg!(windows) { [r"C:\a", r"C:\b"] } else { ["/a", "/b"] };
        let list = env::join_paths([first, "", ".", "bin", second, ".."]).expect("no separators");
        assert_eq!(absolute(&list), [PathBuf::from(first), PathBuf::from(second)]);
        assert_eq!(absolute(OsStr::new("")), [] as [PathBuf; 0]);
    }
}
