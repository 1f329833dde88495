//! Merges of partial states on the CPU against the definition in f64.

use proptest::prelude::*;

use super::*;

const DIM: usize = 5;

/// Output and log-sum-exp of a row.
type One = ([f32; DIM], f32);

/// The definition, in f64.
fn naive(states: &[One]) -> One {
    let most = states.iter().map(|s| s.1).fold(f32::NEG_INFINITY, f32::max);
    let weight = |lse: f32| if lse == f32::NEG_INFINITY { 0.0 } else { f64::from(lse - most).exp() };
    let total: f64 = states.iter().map(|s| weight(s.1)).sum();
    if total == 0.0 {
        return ([0.0; DIM], f32::NEG_INFINITY);
    }
    let o = |d: usize| {
        let there = states.iter().filter(|s| weight(s.1) > 0.0);
        (there.map(|s| weight(s.1) * f64::from(s.0[d])).sum::<f64>() / total) as f32
    };
    (std::array::from_fn(o), most + total.ln() as f32)
}

fn state() -> impl Strategy<Value = One> {
    let full = (prop::array::uniform5(-3f32..3.0), -60f32..60.0);
    let empty = Just(([f32::NAN; DIM], f32::NEG_INFINITY));
    prop_oneof![4 => full, 1 => empty]
}

/// The tensors of (tokens, states) rows of one head.
fn columns(states: &[Vec<One>]) -> (Vec<f32>, Vec<f32>) {
    let rows = || states.iter().flatten();
    (rows().flat_map(|s| s.0).collect(), rows().map(|s| s.1).collect())
}

fn near(got: f32, want: f32) -> bool {
    got == want || (got - want).abs() <= 2e-5 * (1.0 + want.abs())
}

proptest! {
    #[test]
    fn any_number_of_states_matches_the_definition(count in 0usize..6, seed in prop::collection::vec(state(), 18)) {
        let tokens: Vec<Vec<One>> = (0..3).map(|token| seed[token * 6..][..count].to_vec()).collect();
        let (o, lse) = columns(&tokens);
        let (mut out, mut out_lse) = ([f32::NAN; 3 * DIM], [f32::NAN; 3]);
        let states = StateRef {
            o: TensorRef::host(&o, &[3, count, 1, DIM])?,
            lse: TensorRef::host(&lse, &[3, count, 1])?,
        };
        let (o, lse) = (TensorMut::host(&mut out, &[3, 1, DIM])?, TensorMut::host(&mut out_lse, &[3, 1])?);
        merge_states(&states, &mut Out::with_lse(o, lse))?;
        for (token, states) in tokens.iter().enumerate() {
            let want = naive(states);
            prop_assert!(near(out_lse[token], want.1), "{} is not {}", out_lse[token], want.1);
            for d in 0..DIM {
                let row = &out[token * DIM..][..DIM];
                prop_assert!(near(row[d], want.0[d]), "{:?} is not {:?}", row, want.0);
            }
        }
    }

    #[test]
    fn merging_in_place_gives_the_same_bits(
        a in prop::collection::vec(state(), 4), b in prop::collection::vec(state(), 4),
    ) {
        let ((ao, al), (bo, bl)) = (columns(&[a]), columns(&[b]));
        let shape = [2, 2, DIM];
        let other = StateRef { o: TensorRef::host(&bo, &shape)?, lse: TensorRef::host(&bl, &[2, 2])? };
        let own = StateRef { o: TensorRef::host(&ao, &shape)?, lse: TensorRef::host(&al, &[2, 2])? };
        let (mut out, mut out_lse) = ([f32::NAN; 4 * DIM], [f32::NAN; 4]);
        let (o, lse) = (TensorMut::host(&mut out, &shape)?, TensorMut::host(&mut out_lse, &[2, 2])?);
        merge_state(&own, &other, &mut Out::with_lse(o, lse))?;
        prop_assert!(out.iter().all(|x| !x.is_nan()));

        let (mut o, mut lse) = (ao.clone(), al.clone());
        let mut state = StateMut { o: TensorMut::host(&mut o, &shape)?, lse: TensorMut::host(&mut lse, &[2, 2])? };
        merge_state_in_place(&mut state, &other, Some(&Array::host(&[0, 7])))?;
        let bits = |x: &[f32]| x.iter().map(|x| x.to_bits()).collect::<Vec<_>>();
        prop_assert_eq!(bits(&o[..2 * DIM]), bits(&ao[..2 * DIM]));
        prop_assert_eq!(bits(&o[2 * DIM..]), bits(&out[2 * DIM..]));
        prop_assert_eq!((bits(&lse[..2]), bits(&lse[2..])), (bits(&al[..2]), bits(&out_lse[2..])));
    }
}

#[test]
fn a_single_state_keeps_its_bits() {
    use half::bf16;
    let a = [1.5f32, -0.3, 7.0].map(bf16::from_f32);
    let empty = [bf16::NAN; 3];
    let mut out = [bf16::ZERO; 3];
    let state = |o, lse| StateRef {
        o: TensorRef::host(o, &[1, 1, 3]).expect("fits"),
        lse: TensorRef::host(lse, &[1, 1]).expect("fits"),
    };
    let o = TensorMut::host(&mut out, &[1, 1, 3]).expect("fits");
    merge_state(&state(&empty, &[f32::NEG_INFINITY]), &state(&a, &[3.0]), &mut Out::new(o)).expect("sound");
    assert_eq!(out, a);
}

#[test]
fn sums_add_and_strides_are_free() {
    let a = [1.0f32, 2.0, 9.0, 3.0, 4.0, 9.0];
    let b = [10.0f32, 20.0, 30.0, 40.0];
    let mut o = [0.0f32; 4];
    let strided = TensorRef::host(&a, &[2, 1, 2]).and_then(|t| t.with_strides(&[3, 3, 1])).expect("fits");
    // heads outermost, then tokens
    let turned = TensorMut::host(&mut o, &[1, 2, 2]).and_then(|t| t.permuted(&[1, 0, 2]));
    sum(&strided, &TensorRef::host(&b, &[2, 1, 2]).expect("fits"), &mut turned.expect("a permutation")).expect("sound");
    assert_eq!(o, [11.0, 22.0, 33.0, 44.0]);
}

#[test]
fn mismatched_tensors_are_refused() {
    let (o, lse) = ([0f32; 12], [0f32; 6]);
    let mut out = [7f32; 12];
    let state = |shape: &[usize], logs: &[usize]| StateRef {
        o: TensorRef::host(&o, shape).expect("fits"),
        lse: TensorRef::host(&lse, logs).expect("fits"),
    };
    let good = state(&[2, 2, 3], &[2, 2]);
    let mut merge = |a: StateRef<'_>, b: StateRef<'_>| {
        merge_state(&a, &b, &mut Out::new(TensorMut::host(&mut out, &[2, 2, 3]).expect("fits")))
            .map_err(|e| e.to_string())
    };
    for (bad, says) in [
        (state(&[2, 3, 2], &[2, 2]), "b.o has 3 heads"),
        (state(&[2, 2, 3], &[2, 3]), "b.lse has 3 heads"),
        (state(&[4, 3], &[2, 2]), "b.o has rank 2"),
    ] {
        let error = merge(good, bad).expect_err("does not fit");
        assert!(error.contains(says), "{error}");
    }
    assert_eq!(out, [7f32; 12]);
    let halves = [half::f16::ZERO; 12];
    let other = StateRef { o: TensorRef::host(&halves, &[2, 2, 3]).expect("fits"), ..good };
    let mut out = [0f32; 12];
    let error = merge_state(&good, &other, &mut Out::new(TensorMut::host(&mut out, &[2, 2, 3]).expect("fits")));
    assert!(matches!(error, Err(OpError::Dtype { tensor: "b.o", .. })), "{error:?}");
    let mut own = out;
    let mut logs = [0f32; 4];
    let mut state = StateMut {
        o: TensorMut::host(&mut own, &[2, 2, 3]).expect("fits"),
        lse: TensorMut::host(&mut logs, &[2, 2]).expect("fits"),
    };
    let error = merge_state_in_place(&mut state, &good, Some(&Array::host(&[1])));
    assert!(matches!(error, Err(OpError::Len { array: "mask", len: 1, want: 2, .. })), "{error:?}");
}

#[test]
fn states_without_values_still_have_log_sum_exps() {
    let (al, bl) = ([0.0f32, f32::NEG_INFINITY, 1.0], [0.0f32, f32::NEG_INFINITY, 3.0]);
    let state = |lse| StateRef {
        o: TensorRef::host::<f32>(&[], &[3, 1, 0]).expect("fits"),
        lse: TensorRef::host(lse, &[3, 1]).expect("fits"),
    };
    let mut lse = [9.0f32; 3];
    let out = || TensorMut::host::<f32>(&mut [], &[3, 1, 0]).expect("fits");
    let logs = TensorMut::host(&mut lse, &[3, 1]).expect("fits");
    merge_state(&state(&al), &state(&bl), &mut Out::with_lse(out(), logs)).expect("sound");
    assert!(near(lse[0], std::f32::consts::LN_2) && near(lse[2], 3.0 + (-2f32).exp().ln_1p()), "{lse:?}");
    assert_eq!(lse[1], f32::NEG_INFINITY);
    let nothing = TensorRef::host::<f32>(&[], &[3, 1, 0]).expect("fits");
    sum(&nothing, &nothing, &mut out()).expect("sound");
}
