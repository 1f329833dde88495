//! `supports` agrees with planning: on the serving grid, and on cases of it that are changed so that they are refused.

use attn::cuda::CudaError;
use attn::prelude::AttentionOptions;
use attn::{Dtypes, Engine, Error, HeadDimVo, Heads, KernelKind, Spec, Target, Unsupported, Variant, supports};
use attn_testing::{Case, case_plans, case_supports, check, grid};
use attn_tests::gpu::gpu;

const H200: Target = Target::Cuda { capability: (9, 0) };

/// A case, and some that differ in one thing that a backend may refuse.
fn with_changes(case: &Case, number: usize) -> Vec<Case> {
    let of = |change: &dyn Fn(&mut Case)| {
        let mut changed = case.clone();
        change(&mut changed);
        changed
    };
    let changed = match number % 10 {
        0 => of(&|case| (case.dtype, case.kv_dtype) = ("e4m3".to_owned(), None)),
        1 => of(&|case| case.qo_heads = case.kv_heads * 2 + 1),
        2 => of(&|case| case.head_dim = 100),
        3 => of(&|case| (case.dtype, case.kv_dtype) = ("bf16".to_owned(), Some("f16".to_owned()))),
        4 => of(&|case| case.variant = format!("{} + sigmoid + sink", case.variant)),
        5 => of(&|case| case.sm_scale = Some(-1.0)),
        6 => of(&|case| case.kv_dtype = Some("int8".to_owned())),
        7 => of(&|case| case.kv_dtype = Some("int4(group=48)".to_owned())),
        8 => of(&|case| (case.kernel, case.fixed_split_size) = ("mixed".to_owned(), Some(256))),
        _ => of(&|case| (case.kernel, case.fixed_split_size) = ("auto".to_owned(), Some(256))),
    };
    vec![case.clone(), changed]
}

/// Walks every `step`-th case of the grid on an engine: the words of both answers are the same. Returns how many were
/// accepted and refused.
fn agrees(engine: &Engine, target: Target, step: usize) -> [usize; 2] {
    let mut counts = [0; 2];
    for (number, case) in grid::serving().iter().step_by(step).enumerate() {
        for case in with_changes(case, number) {
            // of some changes an expression remains whose parts do not compose
            let Ok(answer) = case_supports(&case, target) else { continue };
            let plan = match case_plans(&case, engine).expect("a case") {
                // lengths that are for two kernels, of which `supports` knows nothing
                Err(Error::Cuda(error)) if matches!(*error, CudaError::OtherKernel { .. }) => continue,
                plan => plan.map_err(|error| error.to_string()),
            };
            let answer = answer.map_err(|error| error.to_string());
            assert_eq!(answer, plan, "{}: {case:?}", case.title());
            counts[usize::from(answer.is_err())] += 1;
        }
    }
    counts
}

#[test]
fn the_cpu_plans_what_is_supported_and_refuses_the_rest_with_the_same_words() {
    let [accepted, refused] = agrees(&Engine::cpu(), Target::Cpu, 29);
    assert!(accepted > 50 && refused > 15, "{accepted} accepted, {refused} refused");
}

#[test]
#[ignore = "takes a minute and a half"]
fn the_cpu_agrees_on_the_whole_grid() {
    let [accepted, refused] = agrees(&Engine::cpu(), Target::Cpu, 1);
    assert!(accepted > 1500 && refused > 500, "{accepted} accepted, {refused} refused");
}

#[test]
fn what_is_supported_runs() {
    let engine = Engine::cpu();
    let cheap = grid::serving().into_iter().filter(|case| case.check_cost() < 2_000_000);
    let mut ran = 0;
    for case in cheap.step_by(31) {
        let case = Case { kernel: "auto".to_owned(), ..case };
        let answer = case_supports(&case, Target::Cpu).expect("a case").map_err(|error| error.to_string());
        match check(&case, &engine) {
            Ok(result) => {
                assert!(answer.is_ok() && result.passed, "{}: {answer:?}, {}", case.title(), result.why());
                ran += 1;
            }
            Err(error) => assert_eq!(answer, Err(error.to_string()), "{}", case.title()),
        }
    }
    assert!(ran > 10, "{ran} cases ran");
}

#[test]
fn a_gpu_that_is_there_agrees() {
    let Some(engine) = gpu() else { return };
    let capability = engine.device().expect("a GPU").capability();
    let [accepted, refused] = agrees(&engine, Target::Cuda { capability }, 7);
    assert!(accepted > 200 && refused > 60, "{accepted} accepted, {refused} refused");
}

/// The grid is what kernels are checked with on an H200 (`attn check --grid serving`).
#[test]
fn the_grid_is_supported_by_a_gpu_that_is_not_there() {
    for case in grid::serving().iter().step_by(43) {
        let answer = case_supports(case, H200).expect("a case");
        answer.unwrap_or_else(|error| panic!("{}: {error}", case.title()));
    }
}

#[test]
fn refusals_say_what_is_possible() {
    let variant = |text: &str| Variant::parse(text).expect("stock");
    let (causal, heads) = (variant("causal"), Heads { qo: 32, kv: 8, head_dim: 128 });
    let spec = Spec::new(&causal, heads, Dtypes::bf16(), H200);
    supports(&spec).expect("the common case");
    let refused = |spec: Spec<'_>, words: &[&str]| {
        let error = supports(&spec).expect_err("refused").to_string();
        assert!(words.iter().all(|word| error.contains(word)), "{error}");
    };
    refused(Spec { target: Target::Cuda { capability: (7, 5) }, ..spec }, &["7.5", "8.0 or later", "Engine::cpu()"]);
    refused(Spec { heads: Heads { qo: 30, ..heads }, ..spec }, &["qo_heads = 30", "kv_heads = 8"]);
    refused(Spec { heads: Heads { head_dim: 100, ..heads }, ..spec }, &["head_dim = 100", "multiples of 8"]);
    let types = Dtypes::new(attn::Dtype::Bf16, attn::Dtype::F16);
    refused(Spec { dtypes: types, ..spec }, &["bf16", "f16", "e4m3 and e5m2"]);
    let union = variant("union(causal, sliding_window(window=4))");
    let of_union = Spec { variant: &union, ..spec };
    supports(&of_union).expect("branch by branch");
    refused(Spec { cascade: true, ..of_union }, &["a union", "mixed kernel"]);
    refused(Spec { device_updates: true, ..of_union }, &["a union", "Plan::update"]);
    let invariant = AttentionOptions { fixed_split_size: Some(1024), ..AttentionOptions::default() };
    refused(Spec { options: invariant, cascade: true, ..spec }, &["levels", "batch-invariant"]);
    supports(&Spec { options: invariant, device_updates: true, ..spec }).expect("a plan says for its capacity");
    let mixed = AttentionOptions { kernel: Some(KernelKind::Mixed), ..AttentionOptions::default() };
    supports(&Spec { options: mixed, device_updates: true, ..spec }).expect("without levels");
    let latent = AttentionOptions { head_dim_vo: HeadDimVo::SharedWithKeys(256), ..AttentionOptions::default() };
    refused(Spec { options: latent, ..spec }, &["256", "128"]);
    assert!(matches!(supports(&Spec { options: latent, ..spec }), Err(Unsupported::Heads(_))));
    // the CPU has other limits
    let cpu = Spec { target: Target::Cpu, ..spec };
    supports(&Spec { heads: Heads { head_dim: 100, ..heads }, dtypes: types, device_updates: true, ..cpu })
        .expect("the CPU");
    let eight = Dtypes::new(attn::Dtype::E4m3, attn::Dtype::E4m3);
    refused(Spec { dtypes: eight, ..cpu }, &["q and o are e4m3", "f16, bf16 or f32"]);
    supports(&Spec { variant: &union, cascade: true, device_updates: true, ..cpu }).expect("the CPU");
}
