//! Kernels built ahead of time: which are embedded, how they are found at run time, and notes and errors of the build.
#![allow(clippy::unwrap_used, clippy::print_stderr)]

use std::{
    env, fs,
    path::Path,
    process::{Command, Output},
};

use attn_core::{
    Registry, Variant,
    dtype::{Dtype, Dtypes},
    spec::{HeadDimVo, KernelKind, PrefillBackend},
};
use attn_kernels::{
    aot::{Aot, AotError},
    compile::{Arch, Compiler},
    jit::{self, JitError},
    kernel_traits::{KernelTraits, KernelTraitsRequest},
    splice::KernelSource,
};

fn aot() -> Aot {
    Aot::new(attn_variants::variants()).head_dims([64]).groups([1]).layouts(true, false)
}

/// The source that a run on `arch` looks up.
fn source(expr: &str, kind: KernelKind, arch: Arch) -> KernelSource {
    let mut registry = Registry::empty();
    registry.register_all(attn_variants::variants()).unwrap();
    let variant = Variant::parse_with(expr, &registry).unwrap();
    let dtypes = Dtypes::bf16();
    let traits = KernelTraits::choose(&KernelTraitsRequest {
        kind,
        head_dim: 64,
        head_dim_vo: HeadDimVo::Same,
        dtypes,
        paged: false,
        group: 1,
        key_hooks: false,
        value_hooks: false,
        arch,
        key_lists: false,
        prefill: PrefillBackend::default(),
    });
    KernelSource::build(&variant, &traits.unwrap()).unwrap()
}

fn table(dir: &Path) -> String {
    fs::read_to_string(dir.join("attn_aot.rs")).unwrap()
}

#[test]
fn embedded_kernels_are_found_at_run_time() {
    if let Err(error) = Compiler::find() {
        eprintln!("SKIPPED: {error}");
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    let archs = [Arch::new(8, 0), Arch::for_device(9, 0)];
    // one cubin serves all parameter values, so the second expression adds none
    let expressions = ["causal + soft_cap(cap=30)", "causal + soft_cap(cap=50)"];
    let report = aot().expressions(expressions).archs(archs).build(dir.path()).unwrap();
    assert_eq!((report.cubins, report.notes), (4, Vec::<String>::new()), "two kernels, two architectures");
    let table = table(dir.path());
    for kind in [KernelKind::Prefill, KernelKind::Decode] {
        for arch in archs {
            let key = source("causal + soft_cap(cap=7)", kind, arch).key().to_string();
            assert!(table.contains(&key), "{kind} {arch}");
            let cubin = fs::read(dir.path().join("attn_aot").join(format!("{key}.cubin"))).unwrap();
            assert!(cubin.starts_with(b"\x7fELF"));
        }
    }
    let other = source("causal", KernelKind::Decode, archs[0]).key().to_string();
    assert!(!table.contains(&other), "another variant has another key");
}

/// The names of the embedded decode kernels.
fn decode_names(table: &str) -> Vec<&str> {
    table.split('"').filter(|word| word.contains("decode head_dim")).collect()
}

#[test]
fn groups_of_one_kernel_are_embedded_once() {
    if let Err(error) = Compiler::find() {
        eprintln!("SKIPPED: {error}");
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    let decode = aot().expressions(["full"]).kinds([KernelKind::Decode]).archs([Arch::new(8, 0)]);
    let report = decode.groups([1, 2, 3, 4, 8, 9, 16, 64]).build(dir.path()).unwrap();
    let table = table(dir.path());
    let names = decode_names(&table);
    assert_eq!((report.cubins, names.len()), (2, 2), "{names:?}");
    assert!(["rows 8", "rows 16"].iter().all(|rows| names.iter().any(|name| name.contains(rows))), "{names:?}");
}

#[test]
fn planner_kernels_are_embedded_on_request() {
    if let Err(error) = Compiler::find() {
        eprintln!("SKIPPED: {error}");
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    let expressions = ["full", "alibi", "causal", "causal + union(sliding_window(window=70), full)"];
    let planners = aot().expressions(expressions).kinds([]).archs([Arch::new(8, 0)]).device_plans();
    let report = planners.build(dir.path()).unwrap();
    let table = table(dir.path());
    let mut names: Vec<_> = table.split('"').filter(|word| word.ends_with("planner sm_80")).collect();
    names.sort_unstable();
    assert_eq!(
        (report.cubins, names),
        (2, vec!["causal: planner sm_80", "planner sm_80"]),
        "variants without a mask share one"
    );
}

#[test]
fn kv_dtypes_are_embedded() {
    if let Err(error) = Compiler::find() {
        eprintln!("SKIPPED: {error}");
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    let decode = aot().expressions(["full"]).kinds([KernelKind::Decode]).archs([Arch::new(8, 0)]);
    let both = decode.dtypes([Dtype::F16, Dtype::Bf16]).kv_dtypes([Dtype::Bf16, Dtype::E4m3]);
    both.build(dir.path()).unwrap();
    let table = table(dir.path());
    let names = decode_names(&table);
    assert_eq!(names.len(), 3, "{names:?}");
    for types in ["64 bf16 ragged", "64 f16 over e4m3", "64 bf16 over e4m3"] {
        assert!(names.iter().any(|name| name.contains(types)), "{types}: {names:?}");
    }
}

#[test]
fn an_empty_request_embeds_nothing() {
    let dir = tempfile::tempdir().unwrap();
    let report = aot().expressions(["causal"]).archs([]).build(dir.path()).unwrap();
    assert_eq!((report.cubins, report.notes.len()), (0, 0));
    assert_eq!(table(dir.path()).split_whitespace().collect::<String>(), "&[]");
}

#[test]
fn errors_name_the_wrong_request() {
    let dir = tempfile::tempdir().unwrap();
    let arch = [Arch::new(8, 0)];
    let wrong = aot().expressions(["causl"]).archs(arch).build(dir.path()).unwrap_err();
    assert!(matches!(wrong, AotError::Expr { .. }) && wrong.to_string().contains("causal"), "{wrong}");
    let of_keys = |kv| aot().expressions(["causal"]).dtypes([Dtype::F16]).kv_dtypes([kv]).archs(arch).build(dir.path());
    let wrong = of_keys(Dtype::Bf16).unwrap_err();
    assert!(
        matches!(wrong, AotError::KernelTraits(_)) && wrong.to_string().contains("f16 with k and v of bf16"),
        "{wrong}"
    );
    let wrong = aot().expressions(["causal"]).head_dims([72]).archs(arch).build(dir.path()).unwrap_err();
    assert!(matches!(wrong, AotError::KernelTraits(_)) && wrong.to_string().contains("72"), "{wrong}");
}

/// Runs one of the `child_*` tests in a process with another environment.
fn child(name: &str, environment: &[(&str, &str)]) -> Output {
    let mut command = Command::new(env::current_exe().unwrap());
    command.args(["--exact", name, "--nocapture"]).env("ATTN_TEST_CHILD", "1").env("ATTN_CACHE", "off");
    command.envs(environment.iter().copied()).output().unwrap()
}

fn passed(output: &Output) {
    assert!(
        output.status.success(),
        "{}\n{}",
        String::from_utf8_lossy(&output.stdout),
        String::from_utf8_lossy(&output.stderr)
    );
}

#[test]
fn without_a_compiler_nothing_is_embedded_and_a_note_says_why() {
    passed(&child("child_without_compiler", &[("ATTN_NVRTC", "/nowhere"), ("ATTN_NVCC", "/nowhere")]));
}

#[test]
fn child_without_compiler() {
    if env::var_os("ATTN_TEST_CHILD").is_none() {
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    let report = aot().expressions(["causal"]).archs([Arch::new(8, 0)]).build(dir.path()).unwrap();
    assert_eq!(report.cubins, 0);
    assert!(report.notes[0].contains("/nowhere") && report.notes[0].contains("pip install"), "{:?}", report.notes);
    let error = jit::obtain(source("causal", KernelKind::Decode, Arch::new(8, 0))).unwrap_err();
    assert!(matches!(error, JitError::NoCompiler { .. }), "{error}");
}

#[test]
fn with_the_jit_off_what_is_missing_is_named() {
    passed(&child("child_without_jit", &[("ATTN_JIT", "off")]));
}

#[test]
fn child_without_jit() {
    if env::var_os("ATTN_TEST_CHILD").is_none() {
        return;
    }
    let error = jit::obtain(source("causal", KernelKind::Decode, Arch::new(8, 0))).unwrap_err();
    assert!(matches!(error, JitError::Refused { .. }), "{error}");
    let text = error.to_string();
    assert!(
        text.contains("causal: decode head_dim 64 bf16 ragged rows 8 sm_80") && text.contains("ATTN_JIT"),
        "{text}"
    );
}

#[test]
fn archs_of_the_environment() {
    passed(&child("child_archs", &[("ATTN_CUDA_ARCHS", "75; 80")]));
}

#[test]
fn sizes_of_the_environment() {
    let sizes = [("ATTN_AOT_HEAD_DIMS", "64; 256"), ("ATTN_AOT_DTYPES", "f16"), ("ATTN_AOT_KV_DTYPES", "f16;e5m2")];
    passed(&child("child_sizes", &sizes));
    passed(&child("child_wrong_sizes", &[("ATTN_AOT_HEAD_DIMS", "64;many")]));
}

#[test]
fn child_sizes() {
    if env::var_os("ATTN_TEST_CHILD").is_none() || Compiler::find().is_err() {
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    let sized = aot().expressions(["full"]).kinds([KernelKind::Decode]).archs([Arch::new(8, 0)]);
    sized.sizes_or_env().build(dir.path()).unwrap();
    let table = table(dir.path());
    let names = decode_names(&table);
    assert_eq!(names.len(), 4, "{names:?}");
    for sizes in ["64 f16 ragged", "256 f16 ragged", "64 f16 over e5m2", "256 f16 over e5m2"] {
        assert!(names.iter().any(|name| name.contains(&format!("head_dim {sizes}"))), "{sizes}: {names:?}");
    }
}

#[test]
fn child_wrong_sizes() {
    if env::var_os("ATTN_TEST_CHILD").is_none() {
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    let error = aot().expressions(["full"]).archs([Arch::new(8, 0)]).sizes_or_env().build(dir.path()).unwrap_err();
    let text = error.to_string();
    assert!(text.contains("ATTN_AOT_HEAD_DIMS") && text.contains("`many`") && text.contains("64;128"), "{text}");
}

#[test]
fn child_archs() {
    if env::var_os("ATTN_TEST_CHILD").is_none() {
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    let error = aot().expressions(["causal"]).build(dir.path()).unwrap_err();
    assert!(error.to_string().contains("`75`"), "{error}");
}
