//! Many kernels at once on a cold cache: threads and processes compile each once. Skipped without a compiler.
#![allow(clippy::unwrap_used, clippy::print_stdout)]

use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::{env, thread};

use attn_core::dtype::Dtype;
use attn_kernels::cache::CubinCache;
use attn_kernels::compile::{Arch, Compiler};
use attn_kernels::jit;
use attn_kernels::splice::{Op, OpSource};
use attn_needs::{Need, has};

/// Kernels that compile quickly; each is there twice.
fn sources() -> Vec<OpSource> {
    let ops = [Op::Lse, Op::Bits, Op::XPacked, Op::Merge(Dtype::F16), Op::Merge(Dtype::Bf16), Op::Merge(Dtype::F32)];
    [ops, ops].concat().into_iter().map(|op| OpSource::build(op, Arch::new(8, 0)).unwrap()).collect()
}

/// The body of each process of `threads_and_processes_compile_each_kernel_once`; skipped when run alone.
#[test]
fn child() {
    let Some(dir) = env::var_os("ATTN_TEST_CACHE_CHILD") else { return };
    let cache = CubinCache::at(&PathBuf::from(dir), 1 << 30);
    let obtain = || {
        let mut reported = 0;
        let ready = jit::obtain_all_from(&cache, sources(), Some(2), |progress| {
            reported += 1;
            assert_eq!((progress.done, progress.total), (reported, 6));
        });
        assert!(ready.iter().all(Result::is_ok));
        assert_eq!((ready.len(), reported), (6, 6));
    };
    // two callers at once, each with two threads
    thread::scope(|scope| {
        scope.spawn(obtain);
        scope.spawn(obtain);
    });
    println!("compiled {}", cache.stats().compiled);
}

#[test]
fn threads_and_processes_compile_each_kernel_once() {
    if !has(Need::Nvrtc, Compiler::find()) {
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    let spawn = |_| {
        let mut command = Command::new(env::current_exe().unwrap());
        command.args(["--exact", "obtain_all::child", "--nocapture"]).env("ATTN_TEST_CACHE_CHILD", dir.path());
        command.stdout(Stdio::piped()).spawn().unwrap()
    };
    let children: Vec<_> = (0..2).map(spawn).collect();
    let compiled = children.into_iter().map(|child| {
        let output = child.wait_with_output().unwrap();
        let text = String::from_utf8_lossy(&output.stdout).into_owned();
        assert!(output.status.success(), "{text}");
        let count = text.split("compiled ").nth(1).and_then(|rest| rest.split_whitespace().next());
        count.unwrap().parse::<u32>().unwrap()
    });
    assert_eq!(compiled.sum::<u32>(), 6, "each of six kernels by one thread of one process");
}
