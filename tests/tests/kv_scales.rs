//! fp8 caches with scales, through the public interface on the CPU, against the definition in f64.

extern crate facade as attn;

use attn::{Out, Scale, batch::indptr, prelude::*, tensor::Element};
use attn_tests::reference::{Formula, Shape, Tensors, attend};
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
    let (q32, k, v) = (values(6 * 4 * DIM, 1), values(TOKENS * 2 * DIM, 2), values(TOKENS * 2 * DIM, 3));
    let lens = LENS.map(|(qo, kv)| (qo.into(), kv.into())).to_vec();
    let shape = Shape { lens, qo_heads: 4, kv_heads: 2, head_dim: DIM as i64, value_dim: DIM as i64 };
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
        let scaled = |x: &[f64], all: f32, heads: [f32; 2]| {
            x.iter().enumerate().map(|(i, x)| x * of(all, heads, i / DIM % 2)).collect()
        };
        let q = q32.iter().copied().map(f64::from).collect();
        let tensors = Tensors { q, k: scaled(&k64, k_all, K_HEADS), v: scaled(&v64, v_all, V_HEADS) };
        let want = |formula| attend(&formula, &shape, &tensors, 1.0 / 8f64.sqrt()).o;
        for paged in [false, true] {
            near(&run::<T>("full", &q32, [&k, &v], scales, paged), &want(Formula::plain()));
            // hooks read dequantised elements
            let normalised = Formula::plain().value(|v, _| {
                let mean = v.iter().map(|x| x * x).sum::<f64>() / DIM as f64;
                v.iter_mut().for_each(|x| *x /= (mean + 1e-6).sqrt());
            });
            near(&run::<T>("value_norm", &q32, [&k, &v], scales, paged), &want(normalised));
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
