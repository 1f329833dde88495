//! Queries of e4m3, and outputs of another type, on the CPU, against the f64 reference, and what is refused.

use attn::{Batch, Dtype, Dtypes, Engine, Error, Heads, Kv, Out, RunOptions, Scale, TensorRef, Variant};
use attn_core::lang::F8E4M3;
use attn_testing::{Case, check, grid};
use attn_tests::synthetic::values;

/// Cases with splits, sinks and output transforms that write other types in turn, half of them from queries of e4m3.
pub(crate) fn cases() -> Vec<Case> {
    let whole = grid::partial().into_iter().chain(grid::small()).filter(|case| !case.partial && !case.counting);
    let of = whole.enumerate().map(|(number, case)| {
        let others = ["f16", "bf16", "f32"].into_iter().filter(|other| *other != case.dtype);
        // retention is no mean of values, and e4m3 does not hold its outputs
        let quantised = (!case.variant.contains("retention")).then_some("e4m3");
        let o_dtype = others.chain(quantised).nth(number % 3).unwrap_or("f32").to_owned();
        let q_dtype = (number % 2 == 0).then(|| "e4m3".to_owned());
        let name = format!("{} from {q_dtype:?} to {o_dtype}", case.title());
        Case { name: Some(name), o_dtype: Some(o_dtype), q_dtype, ..case }
    });
    of.collect()
}

#[test]
fn the_cpu_writes_other_types() {
    attn::registry::register(attn::stock::variants()).expect("no two share a name");
    let engine = Engine::cpu();
    for case in cases() {
        let result = check(&case, &engine).expect("it runs");
        assert!(result.passed, "{}: {}", case.title(), result.why());
    }
}

const HEADS: Heads = Heads { qo: 4, kv: 2, head_dim: 16 };

/// Runs two requests into `o` of some type, through a scale.
fn run(dtypes: Dtypes, o: Dtype, scale: Scale<'_>, options: RunOptions<'_>) -> Result<Vec<f32>, Error> {
    let (engine, stream) = (Engine::cpu(), Engine::cpu().stream()?);
    let attention = engine.attention(&Variant::full(), HEADS, dtypes)?;
    let plan = attention.plan(&Batch::ragged(&[0, 3, 4], &[0, 9, 16]), &mut engine.workspace())?;
    let [q, k, v] = [(4 * 4, 1), (16 * 2, 2), (16 * 2, 3)].map(|(rows, seed)| engine.upload(&values(rows * 16, seed)));
    let (q, k, v) = (q?, k?, v?);
    let (mut to, mut lse) = (engine.alloc(o, 4 * 4 * 16)?, engine.alloc(Dtype::F32, 16)?);
    let kv = Kv::ragged(k.tensor(&[16, 2, 16])?, v.tensor(&[16, 2, 16])?);
    let out = Out::with_lse(to.tensor_mut(&[4, 4, 16])?, lse.tensor_mut(&[4, 4])?).with_scale(scale);
    plan.run_with(&stream, q.tensor(&[4, 4, 16])?, kv, out, options)?;
    engine.download_f32(&to)
}

#[test]
fn a_row_is_rounded_once() {
    let whole = |dtypes: Dtypes, scale| run(dtypes, dtypes.output(), scale, RunOptions::default()).expect("runs");
    let exact = whole(Dtypes::f32(), Scale::default());
    let halves = whole(Dtypes::f32().with_output(Dtype::F16), Scale::default());
    assert_eq!(halves, exact.iter().map(|&x| half::f16::from_f32(x).to_f32()).collect::<Vec<_>>());
    let eight = Dtypes::f32().with_output(Dtype::E4m3);
    let array = [0.25f32];
    let scales = [(Scale::of(0.02), 0.02), (Scale::of(1e-4), 1e-4)];
    let of_array = Scale { all: 0.5, heads: Some(TensorRef::host(&array, &[1]).expect("one")) };
    for (scale, by) in scales.into_iter().chain([(of_array, 0.125)]) {
        let want: Vec<f32> = exact.iter().map(|&x| F8E4M3::from_f32(x * (1.0 / by)).to_f32()).collect();
        assert_eq!(whole(eight, scale), want, "{by}");
    }
    assert!(whole(eight, Scale::of(1e-4)).iter().any(|x| x.abs() == 448.0), "large values saturate");
}

#[test]
fn a_scale_of_queries_is_for_e4m3() {
    let (engine, stream) = (Engine::cpu(), Engine::cpu().stream().expect("a token"));
    let run = |dtypes: Dtypes, q: &attn::DeviceBuffer, scale: Scale<'_>| -> Result<Vec<f32>, Error> {
        let attention = engine.attention(&Variant::full(), HEADS, dtypes)?;
        let plan = attention.plan(&Batch::ragged(&[0, 4], &[0, 9]), &mut engine.workspace())?;
        let kv = engine.upload(&values(9 * 2 * 16, 2))?;
        let mut o = engine.alloc(Dtype::F32, 4 * 4 * 16)?;
        let kv = kv.tensor(&[9, 2, 16])?;
        let kv = Kv::ragged(kv, kv).with_query_scale(scale);
        plan.run(&stream, q.tensor(&[4, 4, 16])?, kv, Out::new(o.tensor_mut(&[4, 4, 16])?))?;
        engine.download(&o)
    };
    let codes: Vec<F8E4M3> = values(4 * 4 * 16, 1).iter().map(|&x| F8E4M3::from_f32(x * 8.0)).collect();
    let read: Vec<f32> = codes.iter().map(|x| x.to_f32() * 0.3).collect();
    let (stored, read) = (engine.upload(&codes).expect("memory"), engine.upload(&read).expect("memory"));
    let eight = Dtypes::f32().with_queries(Dtype::E4m3);
    let got = run(eight, &stored, Scale::of(0.3)).expect("runs");
    assert_eq!(got, run(Dtypes::f32(), &read, Scale::default()).expect("runs"));
    let error = run(Dtypes::f32(), &read, Scale::of(0.3)).expect_err("no e4m3").to_string();
    assert!(error.contains("q is f32 and has a scale") && error.contains("with_queries"), "{error}");
    let error = run(eight, &stored, Scale::of(f32::NAN)).expect_err("no scale").to_string();
    assert!(error.contains("q_scale"), "{error}");
}

#[test]
fn what_does_not_fit_is_refused() {
    let refused = |dtypes: Dtypes, o, scale: Scale<'_>, partial, parts: &[&str]| {
        let options = RunOptions { partial, ..RunOptions::default() };
        let error = run(dtypes, o, scale, options).expect_err("refused").to_string();
        assert!(parts.iter().all(|part| error.contains(part)), "{error}");
    };
    let (f32s, one) = (Dtypes::f32(), Scale::default());
    let eight = f32s.with_output(Dtype::E4m3);
    refused(f32s.with_output(Dtype::E5m2), Dtype::E5m2, one, false, &["o is e5m2", "f16, bf16, f32, or e4m3"]);
    refused(eight, Dtype::F32, one, false, &["o is f32", "e4m3"]);
    refused(f32s, Dtype::E4m3, one, false, &["o is e4m3", "f32"]);
    refused(f32s, Dtype::F32, Scale::of(2.0), false, &["o is f32 and has a scale", "with_output"]);
    refused(eight, Dtype::E4m3, Scale::of(0.0), false, &["o_scale", "positive"]);
    refused(eight, Dtype::E4m3, one, true, &["partial o is e4m3", "quantise what the merge writes"]);
    let two = [1.0f32, 2.0];
    let two = Scale::per_head(TensorRef::host(&two, &[2]).expect("two"));
    refused(eight, Dtype::E4m3, two, false, &["o_scales has 2", "needs 1"]);
    refused(f32s.with_queries(Dtype::F16), Dtype::F32, one, false, &["q is stored as f16", "e4m3"]);
    refused(f32s.with_queries(Dtype::E4m3), Dtype::F32, one, false, &["q is f32", "e4m3"]);
}
