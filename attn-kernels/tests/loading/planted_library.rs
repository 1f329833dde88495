//! The search for NVRTC opens no library below the working folder or above it, whatever it is called, and runs no
//! Python code from there: a checkout of somebody else's code can hold both.
#![cfg(all(feature = "jit", unix))]
#![allow(clippy::unwrap_used)]

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::{env, fs};

use attn_kernels::compile::nvrtc::Nvrtc;
use attn_needs::{Need, needed};

/// A library whose constructor makes the file that `PLANTED_RAN` names.
const LIBRARY: &str = r#"
#include <cstdio>
#include <cstdlib>
__attribute__((constructor)) static void ran() {
    if (const char* path = std::getenv("PLANTED_RAN"))
        if (FILE* file = std::fopen(path, "w")) std::fclose(file);
}
"#;

/// A Python module that does the same.
const MODULE: &str = "import os\nopen(os.environ['PLANTED_RAN'], 'w').close()\n";

/// Folders below a root where a library might be searched: by `target/nvrtc`, as `CUDA_HOME` or `CUDA_PATH`, and as an
/// environment of Python.
const FOLDERS: [&str; 6] = [
    "target/nvrtc/nvidia/cu13/lib",
    "target/nvrtc/nvidia/cuda_nvrtc/lib",
    "nvrtc/nvidia/cu13/lib",
    "lib64",
    "lib/python3.12/site-packages/nvidia/cu13/lib",
    ".",
];

/// Folders with planted libraries: a root, and the working folder three below.
struct Planted {
    root: tempfile::TempDir,
}

impl Planted {
    fn new() -> Option<Self> {
        let root = tempfile::tempdir().unwrap();
        let (source, built) = (root.path().join("planted.cpp"), root.path().join("planted.so"));
        fs::write(&source, LIBRARY).unwrap();
        let names = [env::var_os("CXX"), Some("c++".into()), Some("g++".into()), Some("clang++".into())];
        let build = |compiler: &OsString| {
            let output = Command::new(compiler).args(["-shared", "-fPIC", "-o"]).args([&built, &source]).output();
            output.is_ok_and(|output| output.status.success())
        };
        needed(Need::Cxx, names.into_iter().flatten().find(|name| build(name)).ok_or("set CXX"))?;
        let planted = Planted { root };
        for dir in [planted.root.path(), &planted.working_folder()] {
            for folder in FOLDERS.map(|folder| dir.join(folder)) {
                fs::create_dir_all(&folder).unwrap();
                for name in ["libnvrtc.so", "libnvrtc.so.12", "libnvrtc.so.13", "libnvrtc-builtins.so.13.0"] {
                    fs::copy(&built, folder.join(name)).unwrap();
                }
            }
            for name in ["sysconfig.py", "site.py"] {
                fs::write(dir.join(name), MODULE).unwrap();
            }
        }
        Some(planted)
    }

    fn working_folder(&self) -> PathBuf {
        self.root.path().join("a/b/c")
    }

    /// Whether the search in the working folder ran what is planted.
    fn ran(&self, variables: &[(&str, &Path)]) -> bool {
        let mark = self.root.path().join("ran");
        let _ = fs::remove_file(&mark);
        let mut child = Command::new(env::current_exe().unwrap());
        child.args(["--exact", "planted_library::child", "--nocapture"]).current_dir(self.working_folder());
        for name in ["ATTN_NVRTC", "CUDA_HOME", "CUDA_PATH", "VIRTUAL_ENV", "CONDA_PREFIX", "LD_LIBRARY_PATH"] {
            child.env_remove(name);
        }
        child.env("ATTN_TEST_CHILD", "1").env("PLANTED_RAN", &mark).envs(variables.iter().copied());
        let output = child.output().unwrap();
        let said = [&output.stdout, &output.stderr].map(|bytes| String::from_utf8_lossy(bytes).into_owned()).concat();
        assert!(output.status.success() && said.contains("1 passed"), "{said}");
        mark.exists()
    }
}

/// Searches, in a process of its own.
#[test]
fn child() {
    if env::var_os("ATTN_TEST_CHILD").is_some() {
        let _ = Nvrtc::find();
    }
}

#[test]
fn a_library_in_the_working_folder_or_above_is_not_opened() {
    let Some(planted) = Planted::new() else { return };
    assert!(!planted.ran(&[]), "a planted library or module ran");
    let relative = ["", ".", "../../.."].map(Path::new);
    for name in ["CUDA_HOME", "CUDA_PATH", "VIRTUAL_ENV", "CONDA_PREFIX"] {
        for folder in relative {
            assert!(!planted.ran(&[(name, folder)]), "{name}={}", folder.display());
        }
    }
    assert!(!planted.ran(&[("CARGO_TARGET_DIR", &planted.working_folder().join("target"))]));
}

/// The mark of the test above appears where a library is opened.
#[test]
fn a_library_that_is_named_is_opened() {
    let Some(planted) = Planted::new() else { return };
    let lib = planted.working_folder().join("lib64");
    assert!(planted.ran(&[("ATTN_NVRTC", &lib.join("libnvrtc.so.13"))]));
    assert!(planted.ran(&[("ATTN_NVRTC", &lib)]));
}
