//! The error of compute type e4m3 on random data with outliers, beside exact compute over the same cache, and with
//! rotated keys. `guide/kv-caches.md` of the book has the table; this test writes it (`UPDATE_DOCS=1 cargo test -p
//! attn-tests --test kernels e4m3_accuracy::`) and compares it.
//!
//! Everything but the rounding that the option defines is in f64. Sums of Hopper's tensor cores have fewer bits, which
//! is not in the table.

use std::fmt::Write as _;

use attn_core::batch::Batch;
use attn_core::cpu::{Problem, RowRounding, oracle_with};
use attn_core::expr::Variant;
use attn_core::lang::{F8E4M3, Row};
use attn_core::plan::WorkList;
use attn_core::random;
use attn_core::spec::{HeadDimVo, Heads, KvStored};
use attn_core::tensor::{Kv, KvScales, TensorRef};
use attn_tests::golden::compare_section;
use attn_variants as _;
use half::bf16;

const QUERIES: usize = 128;
const KEYS: usize = 2048;
const DIM: usize = 128;
const HEADS: Heads = Heads { qo: 1, kv: 1, head_dim: DIM as u32 };

/// Numbers of a standard normal distribution, from the Box-Muller transform.
fn normal(count: usize, seed: u32) -> Vec<f32> {
    let uniform = |at: u32, n| (f64::from(random::bits(seed, 0, at, n)) + 0.5) / 4_294_967_296.0;
    let of = |at| (-2.0 * uniform(at, 0).ln()).sqrt() * (std::f64::consts::TAU * uniform(at, 1)).cos();
    (0..count as u32).map(|at| of(at) as f32).collect()
}

fn rounded_to_bf16(x: Vec<f32>) -> Vec<f32> {
    x.into_iter().map(|x| bf16::from_f32(x).to_f32()).collect()
}

/// Keys by what is unusual about them.
fn keys(kind: usize) -> Vec<f32> {
    let mut k = normal(KEYS * DIM, 2);
    let outliers = normal(KEYS * DIM, 3);
    for (at, x) in k.iter_mut().enumerate() {
        let (key, dim) = (at / DIM, at % DIM);
        match kind {
            1 if random::bits(4, 0, at as u32, 0).is_multiple_of(1000) => *x += 10.0 * outliers[at],
            2 if [3, 40].contains(&dim) => *x += 30.0,
            3 if [3, 40, 77, 100].contains(&dim) => *x *= 20.0,
            4 if key % 512 == 0 => *x *= 30.0,
            _ => {}
        }
    }
    rounded_to_bf16(k)
}

const KINDS: [&str; 5] = [
    "N(0, 1)",
    "N(0, 1), and N(0, 100) at one in 1000 elements",
    "two channels + 30",
    "four channels x 20",
    "every 512th key x 30",
];

/// e4m3 of a tensor, and the scale that it is to be multiplied by.
fn stored(x: &[f32]) -> (Vec<F8E4M3>, f32) {
    let scale = x.iter().fold(0f32, |most, x| most.max(x.abs())) / 448.0;
    (x.iter().map(|x| F8E4M3::from_f32(x / scale)).collect(), scale)
}

/// Attention over keys and values in memory.
fn attention(expr: &str, q: &[f32], kv: Kv<'_>, rounding: RowRounding) -> Vec<f64> {
    let variant = Variant::parse(expr).expect("stock").with_stored(KvStored::Transformed);
    let (qo, keys) = ([0, QUERIES as i32], [0, KEYS as i32]);
    let layout = Batch::ragged(&qo, &keys).validate().expect("a batch");
    let variant = variant.bind(&layout.dims(HEADS)).expect("a head dim of a power of two");
    let problem = Problem {
        variant: &variant,
        heads: HEADS,
        head_dim_vo: HeadDimVo::Same,
        sm_scale: HEADS.default_sm_scale(),
        layout: &layout,
        work: &WorkList::default(),
        q: TensorRef::host(q, &[QUERIES, 1, DIM]).expect("a tensor"),
        kv,
    };
    oracle_with(&problem, rounding).expect("a sound problem").o
}

/// `|o - want| / |want|` over the whole output.
fn error(o: &[f64], want: &[f64]) -> f64 {
    let norm = |x: &mut dyn Iterator<Item = f64>| x.map(|x| x * x).sum::<f64>().sqrt();
    norm(&mut o.iter().zip(want).map(|(a, b)| a - b)) / norm(&mut want.iter().copied())
}

/// The errors of exact compute, of e4m3 compute, and of the latter over rotated keys.
fn errors(kind: usize) -> [f64; 3] {
    let (q, k, v) = (rounded_to_bf16(normal(QUERIES * DIM, 1)), keys(kind), normal(KEYS * DIM, 5));
    let shape = [KEYS, 1, DIM];
    let plain = Kv::ragged(TensorRef::host(&k, &shape).expect("k"), TensorRef::host(&v, &shape).expect("v"));
    let want = attention("full", &q, plain, RowRounding::None);
    let mut rotated = k.clone();
    rotated.chunks_exact_mut(DIM).for_each(|mut row| row.hadamard());
    let (v8, v_scale) = stored(&v);
    let over = |expr: &str, keys: &[f32], rounding| {
        let (k8, k_scale) = stored(keys);
        let kv = Kv::ragged(TensorRef::host(&k8, &shape).expect("k"), TensorRef::host(&v8, &shape).expect("v"));
        error(&attention(expr, &q, kv.with_scales(KvScales::of(k_scale, v_scale)), rounding), &want)
    };
    [
        over("full", &k, RowRounding::None),
        over("full", &k, RowRounding::E4m3Compute),
        over("hadamard(values=false)", &rotated, RowRounding::E4m3Compute),
    ]
}

#[test]
fn the_table_of_the_book_is_that_of_the_reference() {
    let mut table = String::new();
    for (kind, name) in KINDS.into_iter().enumerate() {
        let [exact, e4m3, rotated] = errors(kind);
        writeln!(table, "| {name} | {exact:.3} | {e4m3:.3} | {rotated:.3} |").expect("a string");
        assert!(exact < e4m3 && e4m3 < 0.2, "{name}: {exact} {e4m3}");
    }
    let columns = "| keys | exact compute | e4m3 compute | e4m3 compute, rotated keys |\n|---|---|---|---|\n";
    compare_section("../book/src/guide/kv-caches.md", "e4m3-accuracy", &format!("\n{columns}{table}"));
}
