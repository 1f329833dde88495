//! Edges: NaN in masked and in attended logits, empty rows, strides, threads, tile classes.

use attn_core::Variant;
use attn_core::batch::Batch;
use attn_core::cpu::{self, Problem, check_tile_classes, plan_rule};
use attn_core::dtype::Dtype;
use attn_core::expr::Node;
use attn_core::lang::{AttentionVariant, LogitIndex, QueryTile, TileClass};
use attn_core::plan::{Schedule, WorkList};
use attn_core::spec::{HeadDimVo, Heads};
use attn_core::tensor::{Kv, Out, TensorMut, TensorRef};
use attn_core::{VariantParams, attention_variant};

use super::case::{Case, Keys, Scales};
use super::variants::{Band, EveryOther, OddTwice, RowSink, Scattered};

pub(crate) fn case() -> Case {
    Case {
        lens: vec![(40, 150), (1, 700), (0, 3), (5, 0)],
        group: 3,
        kv_heads: 2,
        head_dim: 64,
        head_dim_vo: HeadDimVo::Same,
        keys: Keys::Paged { page_size: 16, hnd: false, fused: false },
        dtype: Dtype::Bf16,
        kv_dtype: None,
        scales: Scales::None,
        variant: 11,
        tile_rows: 16,
        workers: 40,
        schedule: Schedule::LongestFirst,
        seed: 5,
    }
}

const ONE: Heads = Heads { qo: 1, kv: 1, head_dim: 4 };

/// One head, 4 values a row, f32: queries all 1, keys all 0 (so that weights are equal), values as given.
fn attend(variant: &Variant, qo_len: usize, values: &[f32]) -> Vec<f32> {
    let kv_len = values.len() / 4;
    let (qo_indptr, kv_indptr) = ([0, qo_len as i32], [0, kv_len as i32]);
    let layout = Batch::ragged(&qo_indptr, &kv_indptr).validate().expect("sound");
    let work = WorkList::build_for(variant, &layout, ONE, &plan_rule(ONE).into()).expect("small");
    let (q, k) = (vec![1f32; qo_len * 4], vec![0f32; values.len()]);
    let mut o = vec![7f32; qo_len * 4];
    let problem = Problem {
        variant,
        heads: ONE,
        head_dim_vo: HeadDimVo::Same,
        sm_scale: 0.5,
        layout: &layout,
        work: &work,
        q: TensorRef::host(&q, &[qo_len, 1, 4]).expect("fits"),
        kv: Kv::ragged(
            TensorRef::host(&k, &[kv_len, 1, 4]).expect("fits"),
            TensorRef::host(values, &[kv_len, 1, 4]).expect("fits"),
        ),
    };
    cpu::run(&problem, Out::new(TensorMut::host(&mut o, &[qo_len, 1, 4]).expect("fits"))).expect("sound");
    o
}

#[test]
fn a_masked_nan_is_ignored_and_an_attended_nan_propagates() {
    let mut values = vec![1f32; 5 * 4];
    values[4 * 4..].fill(f32::NAN);
    let o = attend(&Band { window: 100 }.into(), 5, &values);
    assert_eq!(o[..16], [1.0; 16]);
    assert!(o[16..].iter().all(|x| x.is_nan()));
}

#[test]
fn a_nan_outside_every_list_and_branch_is_ignored() {
    // one query and 6 keys: the list has 5, 3, 1
    let mut values = vec![1f32; 6 * 4];
    for key in [0, 2, 4] {
        values[4 * key..4 * key + 4].fill(f32::NAN);
    }
    assert_eq!(attend(&EveryOther.into(), 1, &values), [1.0; 4]);
    let mut values = vec![1f32; 6 * 4];
    values[5 * 4..].fill(f32::NAN);
    // the first of two queries does not attend to the last key
    let union = Node::union(vec![Band { window: 1 }.into(), Band { window: 100 }.into()]);
    let o = attend(&union.into(), 2, &values);
    assert_eq!(o[..4], [1.0; 4]);
    assert!(o[4..].iter().all(|x| x.is_nan()));
}

#[test]
fn an_attended_nan_propagates_under_custom_weights() {
    let mut values = vec![1f32; 5 * 4];
    values[4 * 4..].fill(f32::NAN);
    let variant = Variant::from(OddTwice).and(Band { window: 100 }).expect("they go together");
    let o = attend(&variant, 5, &values);
    assert!(o[..16].iter().all(|x| x.is_finite()) && o[16..].iter().all(|x| x.is_nan()));
    let variant = Variant::from(NanBias).and(OddTwice).expect("they go together");
    assert!(attend(&variant, 1, &[1.0; 400]).iter().all(|x| x.is_nan()));
}

#[derive(Clone, Copy, VariantParams)]
struct NanBias;
#[attention_variant(name = "nan_bias")]
impl AttentionVariant for NanBias {
    fn logits_transform(&self, logit: f32, _at: LogitIndex) -> f32 {
        logit + f32::from_bits(0x7fc0_0000)
    }
}

#[test]
fn a_row_of_nan_logits_is_nan_and_not_empty() {
    assert!(attend(&NanBias.into(), 1, &[1.0; 400]).iter().all(|x| x.is_nan()));
}

#[test]
fn queries_before_the_first_key_give_zero() {
    // 3 queries, 1 key: under a causal mask the first two see nothing
    let o = attend(&Band { window: 100 }.into(), 3, &[2.0; 4]);
    assert_eq!(o, [0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 2.0, 2.0, 2.0, 2.0]);
}

#[test]
fn an_empty_batch_writes_nothing() {
    let case = Case { lens: vec![], ..case() };
    assert!(case.setup().run().expect("sound").o.is_empty());
    let only_keys = Case { lens: vec![(0, 10)], ..case };
    assert!(only_keys.setup().run().expect("sound").lse.is_empty());
}

#[test]
fn only_strided_rows_of_the_output_are_written() {
    let setup = Case { keys: Keys::Ragged, dtype: Dtype::F32, ..case() }.setup();
    let want = setup.run().expect("sound").o;
    let (tokens, heads, dim) = (setup.layout.qo_tokens(), setup.heads.qo as usize, 64);
    let mut o = vec![9f32; tokens * heads * (dim + 1)];
    let strides = [dim as i64 + 1, (tokens * (dim + 1)) as i64, 1]; // heads outermost
    let out = TensorMut::host(&mut o, &[tokens, heads, dim]).and_then(|o| o.with_strides(&strides)).expect("fits");
    cpu::run(&setup.problem(), Out::new(out)).expect("sound");
    for token in 0..tokens {
        for head in 0..heads {
            let row = &o[(head * tokens + token) * (dim + 1)..][..dim + 1];
            assert_eq!(row[dim], 9.0);
            let want = &want[(token * heads + head) * dim..][..dim];
            assert!(row.iter().zip(want).all(|(x, y)| f64::from(*x) == *y));
        }
    }
}

#[test]
fn the_result_does_not_depend_on_threads() {
    let setup = case().setup();
    let on = |threads| {
        let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build().expect("threads");
        pool.install(|| setup.run().expect("sound"))
    };
    assert_eq!(on(1), on(7));
}

#[test]
fn wrong_tile_classes_are_reported() {
    #[derive(Clone, Copy, Debug, VariantParams)]
    struct OffByOne;
    #[attention_variant(name = "off_by_one")]
    impl AttentionVariant for OffByOne {
        fn logits_mask(&self, at: LogitIndex) -> bool {
            at.kv_pos <= at.qo_pos
        }
        fn kv_range(&self, tile: QueryTile) -> (i32, i32) {
            (0, tile.qo_pos_max)
        }
    }
    let setup = case().setup();
    let check = |variant: &Variant, keys| check_tile_classes(variant, &setup.layout, setup.heads, 4, keys);
    for keys in [1, 3, 64, 1000] {
        let variant = Variant::from(Band { window: 20 }).and(Scattered).expect("masks go together");
        assert_eq!(check(&variant, keys), Ok(()));
        assert_eq!(check(&RowSink.into(), keys), Ok(()), "no mask: all tiles are full");
    }
    let wrong = check(&OffByOne.into(), 1).expect_err("unsound");
    assert_eq!((wrong.class, wrong.at.kv_pos), (TileClass::Skip, wrong.at.qo_pos));
    assert!(wrong.to_string().contains("attends to key"), "{wrong}");
}
