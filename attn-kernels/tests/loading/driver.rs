//! A damaged or missing driver leads to an error and not to a panic.
#![cfg(all(feature = "cuda", target_os = "linux"))]
#![allow(clippy::unwrap_used)]

use std::{env, fs, process::Command};

use attn_kernels::cuda::{CudaError, Device};

#[test]
fn a_damaged_driver_library_is_named_in_the_error() {
    let dir = tempfile::tempdir().unwrap();
    fs::write(dir.path().join("libcuda.so.1"), vec![b'x'; 4096]).unwrap();
    fs::write(dir.path().join("libcuda.so"), vec![b'x'; 4096]).unwrap();
    let mut child = Command::new(env::current_exe().unwrap());
    child
        .args(["--exact", "driver::child", "--nocapture"])
        .env("ATTN_TEST_CHILD", "1")
        .env("LD_LIBRARY_PATH", dir.path());
    let output = child.output().unwrap();
    let said = [&output.stdout, &output.stderr].map(|bytes| String::from_utf8_lossy(bytes).into_owned()).concat();
    assert!(output.status.success() && said.contains("1 passed"), "{said}");
}

#[test]
fn child() {
    if env::var_os("ATTN_TEST_CHILD").is_none() {
        return;
    }
    let error = Device::new(0).unwrap_err();
    let text = error.to_string();
    assert!(matches!(error, CudaError::NoDriver { .. }), "{text}");
    assert!(text.contains("libcuda.so") && text.contains("Install") && text.contains("Engine::cpu()"), "{text}");
}
