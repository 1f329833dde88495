//! The tolerances of a check: they allow what rounding may change, and no key that is dropped.

use super::{Expected, OracleOut, Rounding, RowRounding, calls_tanh, moved, reference};
use crate::{Case, Distance, Inputs, Lens, case_variant};
use attn::Variant;
use attn_core::spec::KernelKind;

#[test]
fn rounding_changes_transformed_rows_only() {
    let distance = |variant: &str, dtype: &str| {
        let mut case = Case::new(variant);
        // the type of queries, and that of keys and values if it differs
        let mut types = dtype.split(' ').map(str::to_owned);
        (case.dtype, case.kv_dtype) = (types.next().unwrap_or_default(), types.next());
        let (made, inputs) = (case_variant(&case).expect(variant), Inputs::new(&case, false).expect("sound"));
        let of = |rounding| reference(&case, &made, &inputs, rounding).expect("runs");
        let (exact, rounded) = (of(RowRounding::None), of(RowRounding::Elements));
        let [o, lse] = [&rounded.o, &rounded.lse].map(|x| x.iter().map(|&x| x as f32).collect::<Vec<_>>());
        Distance::between(&o, &exact.o, 64, Some((&lse, &exact.lse)))
    };
    let apart = |variant: &str, dtype: &str| distance(variant, dtype).rel_err;
    // the output is compared in f32, whose rounding is 3e-8
    assert!(apart("causal + soft_cap(cap=30)", "bf16") < 1e-7, "no row is rewritten");
    for expr in ["temperature(floor_scale=2)", "causal + rope"] {
        assert!(apart(expr, "f32") < 1e-7, "f32 rows are not rounded");
    }
    let (f16, bf16) = (apart("causal + rope", "f16"), apart("causal + rope", "bf16"));
    assert!(f16 > 1e-5 && bf16 > 1e-5 && f16.max(bf16) < 1e-3, "rows meet rewritten keys in f16: {f16} {bf16}");
    // the relative error of Q K^T is about 2^-11, so the error of the log-sum-exp grows with the norm of the rows
    let [short, long] = [0.0, 0.5].map(|m| distance(&format!("causal + yarn(factor=20, mscale={m})"), "bf16").lse_err);
    assert!(long > 1e-3 && long > 4.0 * short && short > 1e-5, "{short} {long}");
    let (f16, bf16) = (apart("temperature(floor_scale=2)", "f16"), apart("temperature(floor_scale=2)", "bf16"));
    assert!(f16 > 1e-5 && bf16 > 4.0 * f16 && bf16 < 1e-2, "{f16} {bf16}");
    // over an fp8 cache all transformed rows are f16
    for expr in ["temperature(floor_scale=2)", "value_norm", "rope"] {
        let (over_fp8, bf16) = (apart(expr, "bf16 e4m3"), apart(expr, "bf16"));
        assert!(over_fp8 > 1e-5 && over_fp8 < 5e-4 && over_fp8 < 1.5 * bf16, "{expr}: {over_fp8} {bf16}");
        assert!(apart(expr, "f32 e5m2") < 1e-7, "{expr}: there is no such kernel");
    }
}

#[test]
fn rounding_is_measured_over_rows_with_keys() {
    let none = f64::NEG_INFINITY;
    assert_eq!(moved(&[1.0, none, 3.5], &[1.25, none, 3.0]), 0.5);
    assert_eq!(moved(&[none], &[none]), 0.0);
}

/// The outputs of a case of one head without a key in one of its rows, where the key has this value and this share of
/// the row's weights.
fn without_a_key(want: &OracleOut, row: usize, v: &[f32], share: f64) -> (Vec<f32>, Vec<f32>) {
    let [mut o, mut lse] = [&want.o, &want.lse].map(|x| x.iter().map(|&x| x as f32).collect::<Vec<_>>());
    let dim = v.len();
    for (got, (want, v)) in o[row * dim..][..dim].iter_mut().zip(want.o[row * dim..].iter().zip(v)) {
        *got = ((want - share * f64::from(*v)) / (1.0 - share)) as f32;
    }
    lse[row] = (want.lse[row] + (1.0 - share).ln()) as f32;
    (o, lse)
}

#[test]
fn a_key_dropped_in_one_row_of_256_at_16384_keys_is_seen() {
    let (rows, keys, dim) = (256, 16_384, 64);
    for (dtype, counting) in [("bf16", false), ("f16", false), ("f32", false), ("bf16", true), ("f16", true)] {
        let lens = |len| Lens::List(vec![len]);
        let case = Case {
            dtype: dtype.to_owned(),
            counting,
            qo_lens: lens(rows),
            kv_lens: lens(keys),
            qo_heads: 1,
            kv_heads: 1,
            ..Case::new("full")
        };
        let (variant, inputs) = (case_variant(&case).expect("stock"), Inputs::new(&case, false).expect("sound"));
        // as the kernels of a GPU
        let rounding = Rounding { rows: RowRounding::Elements, approximates: true, ..Rounding::default() };
        let expected = Expected::of(&case, &variant, &inputs, rounding).expect("it runs");
        let want = &expected.exact;
        let (q, k, v) = (inputs.q.to_f32(), inputs.k.to_f32(), inputs.v.to_f32());
        let row = 77;
        let dot = |key: usize| -> f64 {
            let rows = q[row * dim..][..dim].iter().zip(&k[key * dim..]);
            rows.map(|(q, k)| f64::from(*q) * f64::from(*k)).sum()
        };
        let mut shares: Vec<(f64, usize)> =
            (0..keys as usize).map(|key| ((dot(key) / 8.0 - want.lse[row]).exp(), key)).collect();
        assert!((shares.iter().map(|(share, _)| share).sum::<f64>() - 1.0).abs() < 1e-9);
        shares.sort_by(|a, b| a.0.total_cmp(&b.0));
        let within = |(o, lse): (Vec<f32>, Vec<f32>)| expected.distance(&o, &lse).within(&expected.tolerance());
        assert!(within(without_a_key(want, row, &[0.0; 64], 0.0)), "{dtype}: the reference itself passes");
        // a key of the median weight; when counting, every key has it
        let (share, key) = shares[keys as usize / 2];
        let seen = !within(without_a_key(want, row, &v[key * dim..][..dim], share));
        assert!(seen, "{dtype}: a key with {share:e} of a row, tolerance {:?}", expected.tolerance());
    }
}

/// Where rows are transformed, a kernel may round ties otherwise, which hides one key of 16,384: a counting case sees
/// it, and so does emulated decode, whose elements are nearly those of the reference.
#[test]
fn a_key_dropped_from_transformed_rows_is_seen_by_counting_and_in_emulated_decode() {
    let keys = 16_384;
    let lens = |len| Lens::List(vec![len]);
    for variant in ["rope", "qk_norm"] {
        let case = |counting| Case {
            counting,
            qo_lens: lens(3),
            kv_lens: lens(keys),
            qo_heads: 1,
            kv_heads: 1,
            ..Case::new(variant)
        };
        let sees = |counting, same_elements| {
            let case = case(counting);
            let (made, inputs) = (case_variant(&case).expect(variant), Inputs::new(&case, false).expect("sound"));
            let rounding = Rounding { rows: RowRounding::Elements, same_elements, ..Rounding::default() };
            let expected = Expected::of(&case, &made, &inputs, rounding).expect("it runs");
            let want = expected.rounded.as_ref().unwrap_or(&expected.exact);
            let within = |(o, lse): (Vec<f32>, Vec<f32>)| expected.distance(&o, &lse).within(&expected.tolerance());
            assert!(within(without_a_key(want, 1, &[0.0; 64], 0.0)), "{variant}: the reference itself passes");
            // of the mean weight, and of the mean value
            let mean: Vec<f32> = want.o[64..128].iter().map(|&x| x as f32).collect();
            !within(without_a_key(want, 1, &mean, 1.0 / f64::from(keys)))
        };
        assert!(sees(true, false) && sees(false, true), "{variant}");
        assert!(!sees(false, false), "{variant}: the documented limit of cases that do not count");
    }
}

#[test]
fn tolerances_grow_where_kernels_round_alone() {
    let lse = |expr: &str, dtype: &str, rounding| {
        let case = Case { dtype: dtype.to_owned(), ..Case::new(expr) };
        let (variant, inputs) = (case_variant(&case).expect("stock"), Inputs::new(&case, false).expect("sound"));
        Expected::of(&case, &variant, &inputs, rounding).expect("it runs").tolerance().lse
    };
    let gpu = Rounding { rows: RowRounding::Elements, approximates: true, ..Rounding::default() };
    for expr in ["causal + alibi", "full", "sink", "value_norm", "sigmoid"] {
        assert!(lse(expr, "bf16", gpu) < 1.5e-5, "{expr}: {}", lse(expr, "bf16", gpu));
    }
    for (expr, most) in [("rope", 2e-3), ("temperature(floor_scale=2)", 1e-2), ("soft_cap(cap=30)", 1.1e-3)] {
        let (gpu, cpu) = (lse(expr, "bf16", gpu), lse(expr, "bf16", Rounding::default()));
        assert!(gpu > 5e-4 && gpu < most && cpu < 1.5e-5, "{expr}: {gpu} {cpu}");
    }
    let tanh = |expr: &str| calls_tanh(&Variant::parse(expr).expect(expr));
    assert!(tanh("causal + soft_cap(cap=3)") && tanh("per_head(heads=[0], soft_cap(cap=3))") && !tanh("rope"));
}

#[test]
fn sums_of_signed_weights_are_judged_by_their_condition() {
    let case = Case::new("causal + retention");
    let (variant, inputs) = (case_variant(&case).expect("stock"), Inputs::new(&case, false).expect("sound"));
    let expected = Expected::of(&case, &variant, &inputs, Rounding::default()).expect("it runs");
    let want = &expected.exact;
    let worst = want.condition.iter().copied().fold(0.0, f64::max);
    assert!(worst > 10.0 && want.condition.iter().all(|&c| c >= 1.0), "{worst}");
    let softmax =
        reference(&Case::new("causal"), &Variant::parse("causal").expect("stock"), &inputs, RowRounding::None);
    assert!(softmax.expect("runs").condition.iter().all(|&c| c == 1.0));
    let o: Vec<f32> = want.o.iter().map(|&x| x as f32).collect();
    let within = |by: f64| {
        let lse = want.lse.iter().zip(&want.condition).map(|(lse, condition)| (lse + by * condition) as f32);
        expected.distance(&o, &lse.collect::<Vec<_>>()).within(&expected.tolerance())
    };
    assert!(within(5e-6) && !within(5e-5));
}

#[test]
fn codes_of_a_format_may_be_rounded_or_multiplied() {
    let lens = |len| Lens::List(vec![len]);
    // of many logits of one key some are near 0, where rounding is most of them
    let case = Case { dtype: "f16".to_owned(), kv_lens: lens(1), qo_lens: lens(500), ..Case::new("relu") };
    let case = case.over_format("int8").expect("it counts no keys");
    let (variant, inputs) = (case_variant(&case).expect("stock"), Inputs::new(&case, false).expect("sound"));
    let expected = |kernel| {
        let rounding =
            Rounding { rows: RowRounding::Elements, kernel: Some(kernel), approximates: true, ..Rounding::default() };
        Expected::of(&case, &variant, &inputs, rounding).expect("it runs")
    };
    let passes = |expected: &Expected, o: &[f64], lse: &[f64]| {
        let [o, lse] = [o, lse].map(|of| of.iter().map(|&x| x as f32).collect::<Vec<_>>());
        expected.distance(&o, &lse).within(&expected.tolerance())
    };
    for (kernel, exact_passes) in [(KernelKind::Prefill, false), (KernelKind::Decode, true), (KernelKind::Mixed, true)]
    {
        let expected = expected(kernel);
        let (exact, rounded) = (&expected.exact, expected.rounded.as_ref().expect("keys are rounded"));
        assert!(passes(&expected, &rounded.o, &rounded.lse), "{kernel}");
        assert_eq!(passes(&expected, &exact.o, &exact.lse), exact_passes, "{kernel}");
        let wrong: Vec<f64> = exact.o.iter().zip(&rounded.o).map(|(a, b)| 1.2 * a - 0.1 * b).collect();
        assert!(!passes(&expected, &wrong, &exact.lse), "{kernel}: a tenth too much of each output");
    }
}
