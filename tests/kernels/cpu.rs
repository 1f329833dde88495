//! The CPU backend and its oracle against formulas in f64, which have no tiles, plans or hooks.

mod cascade;
mod case;
mod edges;
mod errors;
mod mixed;
mod plans;
mod remap;
mod variants;

use attn_core::cpu;
use attn_core::dtype::Dtype;
use attn_core::plan::Schedule;
use attn_core::spec::HeadDimVo;
use case::{Case, Keys, Scales};
use proptest::prelude::*;

/// Largest error relative to the size of the values.
fn worst(got: &[f64], want: &[f64]) -> f64 {
    assert_eq!(got.len(), want.len());
    let error = |(got, want): (&f64, &f64)| match got == want {
        true => 0.0, // infinities
        false => (got - want).abs() / (1.0 + want.abs()),
    };
    // a NaN counts as the largest error
    got.iter().zip(want).map(error).fold(0.0, |worst, e| if e <= worst { worst } else { e })
}

fn keys() -> impl Strategy<Value = Keys> {
    prop_oneof![
        Just(Keys::Ragged),
        (prop::sample::select(vec![1, 5, 16]), any::<bool>(), any::<bool>())
            .prop_map(|(page_size, hnd, fused)| Keys::Paged { page_size, hnd, fused }),
    ]
}

fn cases() -> impl Strategy<Value = Case> {
    let lens = prop_oneof![
        prop::collection::vec((0usize..9, 0usize..200), 0..5),
        prop::collection::vec((0usize..100, 0usize..60), 1..3),
        prop::collection::vec((1usize..2, 100usize..700), 1..4),
    ];
    let heads = (prop::sample::select(vec![1, 3, 4, 7, 8]), 1usize..3);
    let head_dim = prop::sample::select(vec![16, 17, 24, 48, 64, 80, 112, 128, 208, 256]);
    // head_dim_vo: the same, another dimension, or values within the keys (MLA)
    let values = prop_oneof![
        2 => Just(None),
        1 => prop::sample::select(vec![16u32, 24, 33, 128]).prop_map(|dim| Some((dim, false))),
        1 => (1u32..17).prop_map(|dim| Some((dim, true))),
    ];
    let schedules = vec![Schedule::StreamK, Schedule::LongestFirst, Schedule::FixedSplit { keys: 48 }];
    let plan = (
        prop::sample::select(vec![1u32, 3, 16, 64]),
        prop::sample::select(vec![1u32, 8, 64]),
        prop::sample::select(schedules),
    );
    let dtypes = (
        prop::sample::select(vec![Dtype::F32, Dtype::F16, Dtype::Bf16]),
        prop::option::of(prop::sample::select(vec![Dtype::E4m3, Dtype::E5m2])),
        prop::sample::select(vec![Scales::None, Scales::Tensor, Scales::Heads, Scales::Both]),
    );
    (lens, heads, (head_dim, values), keys(), dtypes, 0..variants::count(), plan, any::<u64>()).prop_map(
        |(
            lens,
            (group, kv_heads),
            (head_dim, values),
            keys,
            (dtype, kv_dtype, scales),
            variant,
            (tile_rows, workers, schedule),
            seed,
        )| Case {
            lens,
            group,
            kv_heads,
            head_dim,
            head_dim_vo: match values {
                None => HeadDimVo::Same,
                Some((dim, false)) => HeadDimVo::Dim(dim),
                Some((dim, true)) => HeadDimVo::SharedWithKeys(dim),
            },
            keys,
            dtype,
            kv_dtype,
            scales,
            variant,
            tile_rows,
            workers,
            schedule,
            seed,
        },
    )
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(if attn_needs::whole() { 500 } else { 250 }))]

    #[test]
    fn run_and_oracle_agree_with_the_formula(case in cases()) {
        let set = case.setup();
        let want = set.reference();
        let got = set.run().expect("a sound case");
        let tolerance = case.tolerance();
        prop_assert!(worst(&got.o, &want.o) <= tolerance, "o is {} off", worst(&got.o, &want.o));
        prop_assert!(worst(&got.lse, &want.lse) <= 2e-5, "lse is {} off", worst(&got.lse, &want.lse));
        let oracle = cpu::oracle(&set.problem()).expect("a sound case");
        // the oracle calls hooks in f32, which limits its accuracy
        prop_assert!(worst(&oracle.o, &want.o) <= 2e-5, "the oracle's o is {} off", worst(&oracle.o, &want.o));
        let lse_error = worst(&oracle.lse, &want.lse);
        prop_assert!(lse_error <= 2e-5, "the oracle's lse is {lse_error} off");
    }

    #[test]
    fn splitting_changes_only_rounding(case in cases()) {
        let case = Case { dtype: Dtype::F32, ..case };
        let whole = Case { workers: 1, schedule: Schedule::StreamK, ..case.clone() };
        let whole = whole.setup().run().expect("a sound case");
        let split = Case { workers: 64, tile_rows: 16, ..case }.setup().run().expect("a sound case");
        prop_assert!(worst(&split.o, &whole.o) <= 2e-5);
        prop_assert!(worst(&split.lse, &whole.lse) <= 2e-5);
    }
}
