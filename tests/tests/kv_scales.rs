//! fp8 caches with scales, through the public interface on the CPU, against the definition in f64.

extern crate facade as attn;

use attn::{Out, Scale, batch::indptr, prelude::*, tensor::Element};
use attn_tests::setup::descending_pages;
use attn_tests::synthetic::values;

const HEADS: Heads = Heads { qo: 4, kv: 2, head_dim: 8 };
const DIM: usize = 8;
/// Queries and keys of each request.
const LENS: [(u32, u32); 3] = [(1, 13), (3, 5), (2, 0)];
const TOKENS: usize = 18;
const K_HEADS: [f32; 2] = [0.5, 3.0];
const V_HEADS: [f32; 2] = [1.25, 0.125];

fn stored<T: Element>(values: &[f32]) -> Vec<T> {
    values.iter().map(|&x| T::from_f32(x)).collect()
}

/// The dequantised element of k or v at (token, head, d).
type Reads<'a> = &'a dyn Fn(usize, usize, usize) -> f64;

/// `softmax(q . k / sqrt(8)) v` of every query row, by its definition.
fn attention(q: &[f32], k: Reads<'_>, v: Reads<'_>) -> Vec<f64> {
    let (mut o, mut qo_token, mut kv_token) = (Vec::new(), 0, 0);
    for (qo_len, kv_len) in LENS.map(|(qo, kv)| (qo as usize, kv as usize)) {
        for row in (qo_token * 4)..(qo_token + qo_len) * 4 {
            let head = row % 4 / 2;
            let keys = kv_token..kv_token + kv_len;
            let dot = |key| (0..DIM).map(|d| f64::from(q[row * DIM + d]) * k(key, head, d)).sum::<f64>();
            let weights: Vec<f64> = keys.clone().map(|key| (dot(key) / 8f64.sqrt()).exp()).collect();
            let sum: f64 = weights.iter().sum();
            let mean = |d| keys.clone().zip(&weights).map(|(key, w)| w * v(key, head, d)).sum::<f64>();
            o.extend((0..DIM).map(|d| if kv_len == 0 { 0.0 } else { mean(d) / sum }));
        }
        (qo_token, kv_token) = (qo_token + qo_len, kv_token + kv_len);
    }
    o
}

/// Runs `variant` over a cache of `T`, ragged or in pages of 4 whose unused slots are NaN.
fn run<T: Element>(variant: &str, q: &[f32], [k, v]: [&[f32]; 2], scales: KvScales<'_>, paged: bool) -> Vec<f32> {
    let engine = Engine::cpu();
    let variant = Variant::parse(variant).expect("stock");
    let attention = engine.attention(&variant, HEADS, Dtypes::f32().with_kv(T::DTYPE)).expect("bound");
    let (qo, kv): (Vec<u32>, Vec<u32>) = LENS.into_iter().unzip();
    let (qo_indptr, kv_indptr) = (indptr(&qo).expect("short"), indptr(&kv).expect("short"));
    let table = descending_pages(&kv, 4, 9);
    let batch = if paged { Batch::paged(&qo_indptr, &table.table()) } else { Batch::ragged(&qo_indptr, &kv_indptr) };
    let plan = attention.plan(&batch, &mut engine.workspace()).expect("planned");
    let row = 2 * DIM;
    let in_pool = |data: &[f32]| {
        let Some(pages) = plan.layout().pages() else { return stored::<T>(data) };
        let mut pool = vec![T::from_f32(f32::NAN); 9 * 4 * row];
        for (request, &len) in kv.iter().enumerate() {
            for key in 0..len as usize {
                let (page, slot) = pages.locate(request, key);
                let token = kv_indptr[request] as usize + key;
                pool[(page * 4 + slot) * row..][..row].copy_from_slice(&stored::<T>(&data[token * row..][..row]));
            }
        }
        pool
    };
    let (k, v) = (engine.upload(&in_pool(k)).expect("memory"), engine.upload(&in_pool(v)).expect("memory"));
    let shape = if paged { vec![9, 4, 2, DIM] } else { vec![TOKENS, 2, DIM] };
    let (k, v) = (k.tensor(&shape).expect("fits"), v.tensor(&shape).expect("fits"));
    let kv = if paged { Kv::paged(k, v) } else { Kv::ragged(k, v) };
    let mut o = engine.alloc(Dtype::F32, q.len()).expect("memory");
    let q = TensorRef::host(q, &[6, 4, DIM]).expect("fits");
    let out = Out::new(o.tensor_mut(&[6, 4, DIM]).expect("fits"));
    plan.run(&engine.stream().expect("a token"), q, kv.with_scales(scales), out).expect("runs");
    engine.download_f32(&o).expect("read")
}

fn near(got: &[f32], want: &[f64]) {
    assert_eq!(got.len(), want.len());
    for (i, (got, want)) in got.iter().zip(want).enumerate() {
        assert!((f64::from(*got) - want).abs() <= 1e-5 * (1.0 + want.abs()), "{i}: {got} for {want}");
    }
}

fn of_type<T: Element>() {
    let (q, k, v) = (values(6 * 4 * DIM, 1), values(TOKENS * 2 * DIM, 2), values(TOKENS * 2 * DIM, 3));
    let exact = |x: &[f32]| stored::<T>(x).iter().map(|x| f64::from(x.to_f32())).collect::<Vec<_>>();
    let (k64, v64) = (exact(&k), exact(&v));
    let (k_heads, v_heads) = (TensorRef::host(&K_HEADS, &[2]), TensorRef::host(&V_HEADS, &[2]));
    let (k_heads, v_heads) = (k_heads.expect("two"), v_heads.expect("two"));
    let with_heads = KvScales { k: Scale { all: 0.7, heads: Some(k_heads) }, v: Scale::per_head(v_heads) };
    for (scales, [k_all, v_all], by_head) in [
        (KvScales::default(), [1.0, 1.0], false),
        (KvScales::of(0.3, 5.0), [0.3f32, 5.0], false),
        (with_heads, [0.7, 1.0], true),
    ] {
        let of = |all: f32, heads: [f32; 2], head: usize| {
            f64::from(all) * if by_head { f64::from(heads[head]) } else { 1.0 }
        };
        let at = |token, head, d| (token * 2 + head) * DIM + d;
        let key = |token, head, d| k64[at(token, head, d)] * of(k_all, K_HEADS, head);
        let value = |token, head, d| v64[at(token, head, d)] * of(v_all, V_HEADS, head);
        for paged in [false, true] {
            near(&run::<T>("full", &q, [&k, &v], scales, paged), &attention(&q, &key, &value));
            // hooks read dequantised elements
            let normalised = |token, head, d| {
                let mean = (0..DIM).map(|d| value(token, head, d).powi(2)).sum::<f64>() / DIM as f64;
                value(token, head, d) / (mean + 1e-6).sqrt()
            };
            near(&run::<T>("value_norm", &q, [&k, &v], scales, paged), &attention(&q, &key, &normalised));
        }
    }
}

#[test]
fn stored_elements_are_multiplied_by_their_scales() {
    // also where `inventory` is off
    attn::registry::register(attn::stock::variants()).expect("no two share a name");
    of_type::<F8E4M3>();
    of_type::<F8E5M2>();
    of_type::<bf16>();
    of_type::<f32>();
}

#[test]
fn fp8_saturates_and_keeps_nan() {
    let memory = Engine::cpu();
    for (dtype, most) in [(Dtype::E4m3, 448.0), (Dtype::E5m2, 57344.0)] {
        let of = [1e9, f32::NEG_INFINITY, f32::NAN, 0.0];
        let buffer = match dtype {
            Dtype::E4m3 => memory.upload(&stored::<F8E4M3>(&of)),
            _ => memory.upload(&stored::<F8E5M2>(&of)),
        };
        let buffer = buffer.expect("memory");
        assert_eq!((buffer.dtype(), buffer.elements()), (dtype, 4));
        let read = memory.download_f32(&buffer).expect("read");
        assert!(read[0] == most && read[1] == -most && read[2].is_nan() && read[3] == 0.0, "{read:?}");
    }
    let q = values(6 * 4 * DIM, 1);
    let mut v = values(TOKENS * 2 * DIM, 3);
    v[0] = f32::NAN;
    let o = run::<F8E4M3>("full", &q, [&v, &v], KvScales::default(), false);
    assert!(o[..2 * DIM].iter().all(|x| x.is_nan()) && o[2 * DIM..].iter().all(|x| x.is_finite()), "{o:?}");
}
