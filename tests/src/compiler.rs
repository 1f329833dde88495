//! The host's C++ compiler: `$CXX`, else `c++`, `g++` or `clang++`.

use std::{path::PathBuf, process::Command};

/// The C++ compiler.
///
/// # Panics
/// No compiler was found.
pub fn compiler() -> PathBuf {
    let names = std::env::var_os("CXX").into_iter().chain(["c++", "g++", "clang++"].map(Into::into));
    names
        .map(PathBuf::from)
        .find(|name| Command::new(name).arg("--version").output().is_ok_and(|out| out.status.success()))
        .expect("this test needs a C++17 compiler: install g++ or clang++, or set CXX")
}
