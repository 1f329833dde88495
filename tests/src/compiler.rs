//! The host's C++ compiler: `$CXX`, else `c++`, `g++` or `clang++`.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;
use std::{env, fs};

use attn_kernels::cache::{CubinCache, Key, Origin};
use attn_kernels::compile::{Arch, Compiled};

use crate::mutant::Mutant;

/// The compiler, and what it says of its version.
fn found() -> &'static (PathBuf, String) {
    static FOUND: OnceLock<(PathBuf, String)> = OnceLock::new();
    FOUND.get_or_init(|| {
        let names = env::var_os("CXX").into_iter().chain(["c++", "g++", "clang++"].map(Into::into)).map(PathBuf::from);
        let version = |name: PathBuf| {
            let out = Command::new(&name).arg("--version").output().ok().filter(|out| out.status.success())?;
            Some((name, String::from_utf8_lossy(&out.stdout).into_owned()))
        };
        names.filter_map(version).next().expect("this test needs a C++17 compiler: install g++ or clang++, or set CXX")
    })
}

/// The C++ compiler.
///
/// # Panics
/// No compiler was found.
pub fn compiler() -> PathBuf {
    found().0.clone()
}

/// Bytes that shared libraries may take in the cache.
const LIMIT: u64 = 512 << 20;

/// Compiles a C++ text to a shared library, which is a file of its own in `folder`: the kernels of two tests share no
/// variables.
///
/// Where `ATTN_CACHE_DIR` names a folder, the code is kept there beside cubins, since many tests compile the same text.
///
/// # Errors
/// What the compiler says against the text.
///
/// # Panics
/// No compiler was found, or `folder` cannot be written to.
pub fn shared_library(folder: &Path, text: &str, options: &[&str]) -> Result<PathBuf, String> {
    let [source, library] = ["text.cpp", "text.so"].map(|name| folder.join(name));
    let (compiler, version) = found();
    let compile = || {
        fs::write(&source, text).expect("a folder for the test");
        let mut command = Command::new(compiler);
        command.args(["-shared", "-fPIC"]).args(options).arg("-o").arg(&library).arg(&source);
        let out = command.output().expect("the compiler runs");
        if !out.status.success() {
            return Err(String::from_utf8_lossy(&out.stderr).into_owned());
        }
        let code = fs::read(&library).expect("it was built");
        Ok(Compiled { cubin: code.into(), log: String::new(), compiler: version.clone(), ms: 0.0 })
    };
    match env::var_os("ATTN_CACHE_DIR").filter(|_| Mutant::current().is_none()) {
        None => drop(compile()?),
        Some(cache) => {
            // none in memory: the texts of a whole grid take gigabytes
            let cache = CubinCache::at(&Path::new(&cache).join("host"), LIMIT);
            let key = Key::of(&format!("{version}{options:?}\n{text}"), Arch::new(0, 0));
            let (built, origin) = cache.get_or_compile(&key, compile)?;
            if origin != Origin::Compiled {
                fs::write(&library, &built.cubin).expect("a folder for the test");
            }
        }
    }
    Ok(library)
}
