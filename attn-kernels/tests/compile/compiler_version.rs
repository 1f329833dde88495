//! A cubin names the compiler that made it, and a cache of one compiler takes no other's cubins.
#![allow(clippy::unwrap_used)]

use std::{convert::Infallible, path::Path};

use attn_core::dtype::Dtype;
use attn_kernels::aot::{AotOptions, build};
use attn_kernels::cache::{CubinCache, Origin};
use attn_kernels::compile::{Arch, Compiled};
use attn_kernels::jit;
use attn_kernels::splice::{Op, OpSource, Unit as _};

fn source() -> OpSource {
    OpSource::build(Op::Merge(Dtype::F16), Arch::new(8, 0)).unwrap()
}

/// Keeps an entry of another compiler for the source.
fn keep_stale(cache: &CubinCache) {
    let (log, compiler) = (String::new(), "NVRTC 12.9.1".to_owned());
    let stale = Compiled { cubin: b"stale".to_vec().into(), log, compiler, ms: 1.0 };
    let (_, origin) = cache.get_or_compile(&source().key(), || Ok::<_, Infallible>(stale)).unwrap();
    assert_eq!(origin, Origin::Compiled);
}

fn at(dir: &Path) -> CubinCache {
    CubinCache::at(dir, 1 << 30)
}

#[test]
fn a_cubin_names_its_compiler() {
    let Some(compiler) = crate::stock::compiler() else { return };
    let compiled = compiler.compile("merge", source().text(), source().arch()).unwrap();
    assert_eq!(compiled.compiler, compiler.exact_name());
    let (name, parts) = compiled.compiler.rsplit_once(' ').map(|(name, v)| (name, v.split('.').count())).unwrap();
    assert!(compiler.name().starts_with(name));
    // toolkits before 13 may name no patch version in a cubin
    assert!(parts == 3 || compiled.compiler == compiler.name(), "{}", compiled.compiler);
}

#[test]
fn entries_of_another_compiler_are_replaced_where_those_of_one_are_asked_for() {
    let Some(compiler) = crate::stock::compiler() else { return };
    let dir = tempfile::tempdir().unwrap();
    keep_stale(&at(dir.path()));
    let runtime = jit::obtain_from(&at(dir.path()), source()).unwrap();
    assert_eq!((runtime.origin, &*runtime.compiled.cubin), (Origin::Disk, &b"stale"[..]), "no compiler is asked");
    let own = at(dir.path()).with_compiler(&compiler);
    let ready = jit::obtain_from(&own, source()).unwrap();
    assert_eq!((ready.origin, own.stats().other_compiler), (Origin::Compiled, 2));
    assert!(ready.compiled.cubin.starts_with(b"\x7fELF"));
    let again = jit::obtain_from(&at(dir.path()).with_compiler(&compiler), source()).unwrap();
    assert_eq!(again.origin, Origin::Disk);
}

#[test]
fn a_build_ahead_of_time_embeds_no_cubin_of_another_compiler() {
    let name = "compiler_version::child_build";
    let dir = tempfile::tempdir().unwrap();
    keep_stale(&at(dir.path()));
    let mut child = std::process::Command::new(std::env::current_exe().unwrap());
    child.args(["--exact", name, "--nocapture"]).env("ATTN_TEST_CHILD", "1").env("ATTN_CACHE_DIR", dir.path());
    let output = child.output().unwrap();
    let said = [&output.stdout, &output.stderr].map(|bytes| String::from_utf8_lossy(bytes).into_owned()).concat();
    assert!(output.status.success() && said.contains("1 passed"), "{said}");
}

#[test]
fn child_build() {
    if std::env::var_os("ATTN_TEST_CHILD").is_none() || crate::stock::compiler().is_none() {
        return;
    }
    let out = tempfile::tempdir().unwrap();
    let archs = [Arch::new(8, 0)];
    let options = AotOptions { ops: &[Op::Merge(Dtype::F16)], archs: Some(&archs), ..AotOptions::default() };
    let report = build(&options, out.path()).unwrap();
    assert_eq!((report.cubins, report.compiled), (1, 1));
    let cubin = out.path().join("attn_aot").join(format!("{}.cubin", source().key()));
    assert!(std::fs::read(cubin).unwrap().starts_with(b"\x7fELF"));
    let Some(compiler) = crate::stock::compiler() else { return };
    let table = std::fs::read_to_string(out.path().join("attn_aot.rs")).unwrap();
    assert!(table.contains(&format!("compiler: {:?}", compiler.exact_name())), "{table}");
}
