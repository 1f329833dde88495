//! Tests whose host kernels are compiled with the sanitizers of addresses and of undefined behaviour. The first needs
//! its runtime before all others, so that such a test runs in a process of its own. There Rust's memory has red zones
//! too: a kernel that reads or writes past the end of a tensor fails.

use std::process::Command;

use crate::compiler::compiler;

/// The variable that tells the process that it is one of these.
const VARIABLE: &str = "ATTN_TEST_SANITIZERS";

/// The options of the compiler in this process.
pub fn options() -> &'static [&'static str] {
    let on = std::env::var_os(VARIABLE).is_some();
    if on { &["-fsanitize=address,undefined", "-fno-sanitize-recover=all", "-g1"] } else { &[] }
}

/// Runs a test of this binary with the sanitizers. The test is ignored otherwise.
///
/// # Panics
/// It fails, or the compiler has no sanitizers.
pub fn run(test: &str) {
    let runtime = Command::new(compiler()).arg("-print-file-name=libasan.so").output().expect("the compiler runs");
    let runtime = String::from_utf8(runtime.stdout).expect("a path");
    assert!(runtime.trim().contains('/'), "install g++ with libasan, or set CXX: the compiler has no sanitizers");
    let out = Command::new(std::env::current_exe().expect("this program"))
        .args([test, "--exact", "--ignored", "--nocapture"])
        .env(VARIABLE, "1")
        .env("LD_PRELOAD", runtime.trim())
        // fibers leave frames behind, and the process ends with its memory
        .env("ASAN_OPTIONS", "detect_leaks=0:detect_stack_use_after_return=0")
        .env("UBSAN_OPTIONS", "print_stacktrace=1")
        .output()
        .expect("it starts");
    let text = format!("{}{}", String::from_utf8_lossy(&out.stdout), String::from_utf8_lossy(&out.stderr));
    assert!(out.status.success() && text.contains("1 passed"), "{text}");
}
