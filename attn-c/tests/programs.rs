//! C programs, compiled as C and as C++, with the shared and the static library.

use std::{
    path::{Path, PathBuf},
    process::Command,
};

use attn_needs::{Need, has};

/// The folder of the libraries that cargo has built for this test.
fn libraries() -> PathBuf {
    let program = std::env::current_exe().expect("this test");
    program.parent().expect("its folder").to_owned()
}

/// Compiles a program and runs it.
fn runs(compiler: &[&str], program: &str, link: &[String]) {
    let folder = tempfile::tempdir().expect("a folder");
    let (source, binary) =
        (Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/c").join(program), folder.path().join("a"));
    let mut command = Command::new(compiler[0]);
    command.args(&compiler[1..]).args(["-Wall", "-Wextra", "-Werror", "-pedantic", "-O1"]);
    command.arg("-I").arg(Path::new(env!("CARGO_MANIFEST_DIR")).join("include"));
    command.arg(&source).arg("-o").arg(&binary).args(link).args(["-lm", "-lpthread", "-ldl"]);
    let compiled = command.output().expect("a compiler");
    assert!(compiled.status.success(), "{}", String::from_utf8_lossy(&compiled.stderr));
    let ran = Command::new(&binary).output().expect("a program");
    let text = String::from_utf8_lossy(&ran.stderr);
    assert!(ran.status.success() && ran.stdout == b"ok\n", "{compiler:?} {link:?}: {text}");
}

#[test]
fn a_paged_decode_in_c_and_in_cpp() {
    let found = Command::new("c++").arg("--version").output().map(drop);
    if !has(Need::Cxx, found) {
        return;
    }
    let folder = libraries();
    let shared = [format!("-L{}", folder.display()), "-lattn_c".into(), format!("-Wl,-rpath,{}", folder.display())];
    let fixed = [folder.join("libattn_c.a").display().to_string()];
    let (c, cpp) = (["cc", "-std=c11"], ["c++", "-std=c++17", "-x", "c++"]);
    runs(&c, "paged_decode.c", &shared);
    runs(&cpp, "paged_decode.c", &shared);
    runs(&c, "paged_decode.c", &fixed);
}
