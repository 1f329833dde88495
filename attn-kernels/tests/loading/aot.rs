//! Kernels built ahead of time: which are embedded, how they are found at run time, and notes and errors of the build.
#![allow(clippy::unwrap_used)]

use std::path::Path;
use std::process::{Command, Output};
use std::{env, fs};

use attn_core::dtype::{Dtype, Dtypes};
use attn_core::spec::{HeadDimVo, KernelKind};
use attn_kernels::aot::{AotError, AotOptions, build};
use attn_kernels::compile::Arch;
use attn_kernels::cost::{CostTable, HookClass};
use attn_kernels::jit::{self, JitError};
use attn_kernels::kernel_traits::{KernelTraits, KernelTraitsRequest};
use attn_kernels::splice::{KernelSource, OpSource, Unit as _};

use crate::stock::{compiler, variant};

const SM_80: [Arch; 1] = [Arch::new(8, 0)];

/// One head dimension, ragged keys, one query head per KV head, for sm_80.
fn aot() -> AotOptions<'static> {
    AotOptions {
        variants: attn_variants::variants(),
        head_dims: &[64],
        groups: &[1],
        paged: &[false],
        archs: Some(&SM_80),
        ..AotOptions::default()
    }
}

/// The decode kernel of the variant without hooks.
fn decode() -> AotOptions<'static> {
    AotOptions { expressions: &["full"], kinds: &[KernelKind::Decode], ..aot() }
}

/// The source that a run on `arch` looks up.
fn source(expr: &str, kind: KernelKind, arch: Arch) -> KernelSource {
    let request = KernelTraitsRequest::new(kind, 64, Dtypes::bf16(), arch);
    let traits = KernelTraits::choose(&KernelTraitsRequest { paged: false, ..request }).unwrap();
    KernelSource::build(&variant(expr), &traits).unwrap()
}

fn table(dir: &Path) -> String {
    fs::read_to_string(dir.join("attn_aot.rs")).unwrap()
}

#[test]
fn embedded_kernels_are_found_at_run_time() {
    if compiler().is_none() {
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    let archs = [Arch::new(8, 0), Arch::for_device(9, 0)];
    // one cubin serves all parameter values, so the second expression adds none
    let expressions = ["causal + soft_cap(cap=30)", "causal + soft_cap(cap=50)"];
    let options = AotOptions { expressions: &expressions, archs: Some(&archs), ..aot() };
    let report = build(&options, dir.path()).unwrap();
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
    if compiler().is_none() {
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    let report = build(&AotOptions { groups: &[1, 2, 3, 4, 8, 9, 16, 64], ..decode() }, dir.path()).unwrap();
    let table = table(dir.path());
    let names = decode_names(&table);
    assert_eq!((report.cubins, names.len()), (2, 2), "{names:?}");
    assert!(["rows 8", "rows 16"].iter().all(|rows| names.iter().any(|name| name.contains(rows))), "{names:?}");
}

#[test]
fn kernels_of_row_invariant_attention_are_embedded_beside_the_others() {
    if compiler().is_none() {
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    let report = build(&AotOptions { row_invariant: &[false, true], ..decode() }, dir.path()).unwrap();
    let table = table(dir.path());
    let names = decode_names(&table);
    let invariant = names.iter().filter(|name| name.contains("row-invariant")).count();
    assert_eq!((report.cubins, names.len(), invariant), (2, 2, 1), "{names:?}");
}

#[test]
fn every_backend_that_a_smaller_group_chooses_is_embedded() {
    if compiler().is_none() {
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    // by the measured costs, four query heads choose CUDA cores and eight choose tensor cores
    let arch = [Arch::for_device(9, 0)];
    let rope = AotOptions { expressions: &["rope"], head_dims: &[256], groups: &[8], archs: Some(&arch), ..decode() };
    let report = build(&rope, dir.path()).unwrap();
    let table = table(dir.path());
    let names = decode_names(&table);
    assert_eq!((report.cubins, names.len()), (5, 5), "{names:?}");
    for group in [1, 4, 8] {
        let request = KernelTraitsRequest::new(KernelKind::Decode, 256, Dtypes::bf16(), arch[0]);
        let request = KernelTraitsRequest { paged: false, group, ..request.with_hooks([&variant("rope")]) };
        let request = request.with_decode_backend(HookClass::Rewrites, &CostTable::default());
        let traits = KernelTraits::choose(&request).unwrap();
        assert_eq!(traits.facts().on_cuda_cores, group < 8);
        let key = KernelSource::build(&variant("rope"), &traits).unwrap().key().to_string();
        assert!(table.contains(&key), "group {group}: {names:?}");
    }
}

#[test]
fn planner_kernels_are_embedded_on_request() {
    if compiler().is_none() {
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    let expressions = ["full", "alibi", "causal", "causal + union(sliding_window(window=70), full)"];
    let planners = AotOptions { expressions: &expressions, kinds: &[], device_plans: true, ..aot() };
    let report = build(&planners, dir.path()).unwrap();
    let table = table(dir.path());
    let mut names: Vec<_> = table.split('"').filter(|word| word.ends_with("planner sm_80")).collect();
    names.sort_unstable();
    assert_eq!(
        (report.cubins, names),
        (8, vec!["causal: planner sm_80", "planner sm_80"]),
        "variants without a mask share one"
    );
}

#[test]
fn kv_dtypes_are_embedded() {
    if compiler().is_none() {
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    let (dtypes, kv_dtypes) = (&[Dtype::F16, Dtype::Bf16], &[Dtype::Bf16, Dtype::E4m3]);
    build(&AotOptions { dtypes, kv_dtypes, ..decode() }, dir.path()).unwrap();
    let table = table(dir.path());
    let names = decode_names(&table);
    assert_eq!(names.len(), 3, "{names:?}");
    for types in ["64 bf16 ragged", "64 f16 over e4m3", "64 bf16 over e4m3"] {
        assert!(names.iter().any(|name| name.contains(types)), "{types}: {names:?}");
    }
}

/// Kernels over a KV format, and the encode and the gather of its cache, are those that a run looks up.
#[test]
fn kernels_over_kv_formats_are_embedded() {
    if compiler().is_none() {
        return;
    }
    attn_core::registry::register_kv_formats(attn_variants::kv_formats::all()).unwrap();
    let dir = tempfile::tempdir().unwrap();
    let formats = "int8 / int4(group=32)";
    let options =
        AotOptions { expressions: &["causal"], kv_formats: &[formats], kv_dtypes: &[Dtype::E4m3], ..decode() };
    let report = build(&AotOptions { appends: true, ..options }, dir.path()).unwrap();
    let table = table(dir.path());
    assert_eq!(report.cubins, 4, "{table}");

    let bf16 = Dtypes::bf16();
    let dtypes = Dtypes::new(bf16.qo, bf16.kv).with_kv_format(formats).unwrap();
    let (over, dtypes) = variant("causal").over(dtypes, HeadDimVo::Same).unwrap();
    let request = KernelTraitsRequest::new(KernelKind::Decode, 64, dtypes, SM_80[0]).with_hooks([&over]);
    let traits = KernelTraits::choose(&KernelTraitsRequest { paged: false, group: 1, ..request }.for_branch(&over));
    let appends = over.of_appends().unwrap();
    let keys = [
        KernelSource::build(&over, &traits.unwrap()).unwrap().key(),
        OpSource::encode(&appends, Dtype::Bf16, SM_80[0]).unwrap().key(),
        OpSource::gather_packed(&appends, Dtype::Bf16, SM_80[0]).unwrap().key(),
    ];
    for key in keys {
        assert!(table.contains(&key.to_string()), "{key}: {table}");
    }
    let unknown = AotOptions { kv_formats: &["int9"], ..options };
    let wrong = build(&unknown, dir.path()).unwrap_err();
    assert!(matches!(wrong, AotError::Expr { .. }) && wrong.to_string().contains("int9"), "{wrong}");
}

#[test]
fn an_empty_request_embeds_nothing() {
    let dir = tempfile::tempdir().unwrap();
    let report = build(&AotOptions { expressions: &["causal"], archs: Some(&[]), ..aot() }, dir.path()).unwrap();
    assert_eq!((report.cubins, report.notes.len()), (0, 0));
    assert_eq!(table(dir.path()).split_whitespace().collect::<String>(), "&[]");
}

#[test]
fn errors_name_the_wrong_request() {
    let dir = tempfile::tempdir().unwrap();
    let refused = |options: &AotOptions<'_>| build(options, dir.path()).unwrap_err();
    let wrong = refused(&AotOptions { expressions: &["causl"], ..aot() });
    assert!(matches!(wrong, AotError::Expr { .. }) && wrong.to_string().contains("causal"), "{wrong}");
    let causal = AotOptions { expressions: &["causal"], ..aot() };
    let wrong = refused(&AotOptions { dtypes: &[Dtype::F16], kv_dtypes: &[Dtype::Bf16], ..causal });
    assert!(
        matches!(wrong, AotError::KernelTraits(_)) && wrong.to_string().contains("f16 with k and v of bf16"),
        "{wrong}"
    );
    let wrong = refused(&AotOptions { head_dims: &[516], ..causal });
    assert!(matches!(wrong, AotError::KernelTraits(_)) && wrong.to_string().contains("516"), "{wrong}");
}

/// Runs one of the `child_*` tests in a process with another environment.
fn child(name: &str, environment: &[(&str, &str)]) -> Output {
    let mut command = Command::new(env::current_exe().unwrap());
    command
        .args(["--exact", &format!("aot::{name}"), "--nocapture"])
        .env("ATTN_TEST_CHILD", "1")
        .env("ATTN_CACHE", "off");
    command.envs(environment.iter().copied()).output().unwrap()
}

/// One test has run, and passed: a name that no test has would run none.
fn passed(output: &Output) {
    let said = [&output.stdout, &output.stderr].map(|bytes| String::from_utf8_lossy(bytes).into_owned()).concat();
    assert!(output.status.success() && said.contains("1 passed"), "{said}");
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
    let report = build(&AotOptions { expressions: &["causal"], ..aot() }, dir.path()).unwrap();
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
    passed(&child("child_archs", &[("ATTN_CUDA_ARCHS", "70; 80")]));
}

#[test]
fn sizes_of_the_environment() {
    let sizes = [("ATTN_AOT_HEAD_DIMS", "64; 256"), ("ATTN_AOT_DTYPES", "f16"), ("ATTN_AOT_KV_DTYPES", "f16;e5m2")];
    passed(&child("child_sizes", &sizes));
    passed(&child("child_wrong_sizes", &[("ATTN_AOT_HEAD_DIMS", "64;many")]));
}

#[test]
fn child_sizes() {
    if env::var_os("ATTN_TEST_CHILD").is_none() || compiler().is_none() {
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    build(&AotOptions { env: true, ..decode() }, dir.path()).unwrap();
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
    let error = build(&AotOptions { env: true, ..decode() }, dir.path()).unwrap_err();
    let text = error.to_string();
    assert!(text.contains("ATTN_AOT_HEAD_DIMS") && text.contains("`many`") && text.contains("64;128"), "{text}");
}

#[test]
fn child_archs() {
    if env::var_os("ATTN_TEST_CHILD").is_none() {
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    let error = build(&AotOptions { expressions: &["causal"], archs: None, ..aot() }, dir.path()).unwrap_err();
    assert!(error.to_string().contains("`70`"), "{error}");
}
