//! C programs, compiled as C and as C++, with the shared and the static library.

use std::path::{Path, PathBuf};
use std::process::Command;

use attn_needs::{Need, has};

/// The folder of the libraries that cargo has built for this test.
fn libraries() -> PathBuf {
    let program = std::env::current_exe().expect("this test");
    program.parent().expect("its folder").to_owned()
}

/// Compiles a program with the libraries of this test, or only checks it.
fn compile(compiler: &[&str], program: &str, how: &[String]) {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR"));
    let mut command = Command::new(compiler[0]);
    command.args(&compiler[1..]).args(["-Wall", "-Wextra", "-Werror", "-pedantic", "-O1"]);
    for include in ["include", "tests/c"] {
        command.arg("-I").arg(folder.join(include));
    }
    let compiled = command.arg(folder.join(program)).args(how).output().expect("a compiler");
    assert!(compiled.status.success(), "{}", String::from_utf8_lossy(&compiled.stderr));
}

/// Compiles a program and runs it; returns what it prints before `ok`.
fn runs(compiler: &[&str], program: &str, link: &[String]) -> String {
    let folder = tempfile::tempdir().expect("a folder");
    let binary = folder.path().join("a");
    let output = ["-o".to_owned(), binary.display().to_string()];
    let system = ["-lm", "-lpthread", "-ldl"].map(str::to_owned);
    compile(compiler, program, &[&output, link, &system].concat());
    // the library of this test, and not one that an earlier build left where the test runner says
    let ran = Command::new(&binary).env_remove("LD_LIBRARY_PATH").output().expect("a program");
    let (said, why) = (String::from_utf8_lossy(&ran.stdout), String::from_utf8_lossy(&ran.stderr));
    assert!(ran.status.success(), "{compiler:?} {link:?}: {why}");
    said.strip_suffix("ok\n").unwrap_or_else(|| panic!("{compiler:?} {link:?}: {said}")).to_owned()
}

const C: [&str; 2] = ["cc", "-std=c11"];
const CPP: [&str; 4] = ["c++", "-std=c++17", "-x", "c++"];

/// How programs are linked to the shared library, if there is a compiler.
fn shared() -> Option<[String; 3]> {
    let folder = libraries();
    let link = [format!("-L{}", folder.display()), "-lattn_c".into(), format!("-Wl,-rpath,{}", folder.display())];
    has(Need::Cxx, Command::new("c++").arg("--version").output().map(drop)).then_some(link)
}

#[test]
fn a_paged_decode_in_c_and_in_cpp() {
    let Some(shared) = shared() else { return };
    let fixed = [libraries().join("libattn_c.a").display().to_string()];
    for (compiler, link) in [(&C[..], &shared[..]), (&CPP, &shared), (&C, &fixed)] {
        assert_eq!(runs(compiler, "tests/c/paged_decode.c", link), "");
    }
}

#[test]
fn keys_and_values_in_a_format() {
    let Some(shared) = shared() else { return };
    for compiler in [&C[..], &CPP] {
        assert_eq!(runs(compiler, "tests/c/kv_format.c", &shared), "");
    }
}

#[test]
fn memory_that_a_call_cannot_take() {
    let Some(shared) = shared() else { return };
    for compiler in [&C[..], &CPP] {
        assert_eq!(runs(compiler, "tests/c/bad_memory.c", &shared), "");
    }
}

#[test]
fn what_a_call_would_leave_out() {
    let Some(shared) = shared() else { return };
    for compiler in [&C[..], &CPP] {
        assert_eq!(runs(compiler, "tests/c/left_out.c", &shared), "");
    }
}

#[test]
#[cfg(unix)]
fn a_child_of_a_fork() {
    let Some(shared) = shared() else { return };
    for compiler in [&C[..], &CPP] {
        assert_eq!(runs(compiler, "tests/c/forked.c", &shared), "");
    }
}

#[test]
#[cfg(unix)]
fn keys_on_two_ranks() {
    let Some(shared) = shared() else { return };
    for compiler in [&C[..], &CPP] {
        assert_eq!(runs(compiler, "tests/c/ranks.c", &shared), "");
    }
}

/// On the CPU; on a GPU too where there is one.
fn on_the_cpu_and_on_a_gpu(program: &str) {
    let Some(shared) = shared() else { return };
    for compiler in [&C[..], &CPP] {
        let said = runs(compiler, program, &shared);
        let found = said.strip_prefix("no GPU: ").map_or(Ok(()), Err);
        let _ = has(Need::Gpu, found);
    }
}

#[test]
fn steps_on_the_cpu_and_on_a_gpu() {
    on_the_cpu_and_on_a_gpu("tests/c/cpu_and_gpu.c");
}

#[test]
fn plans_that_the_device_makes() {
    on_the_cpu_and_on_a_gpu("tests/c/device_plan.c");
}

#[test]
fn keys_that_requests_share() {
    on_the_cpu_and_on_a_gpu("tests/c/cascade.c");
}

#[test]
fn sums_and_bases_of_log_sum_exps() {
    on_the_cpu_and_on_a_gpu("tests/c/sums.c");
}

#[test]
fn tokens_of_logits() {
    on_the_cpu_and_on_a_gpu("tests/c/sampling.c");
}

#[test]
fn drafts_that_are_verified() {
    on_the_cpu_and_on_a_gpu("tests/c/verify.c");
}

#[test]
fn the_benchmark_compiles() {
    if shared().is_some() {
        compile(&C, "benches/overhead.c", &["-fsyntax-only".to_owned()]);
    }
}
