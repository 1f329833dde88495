//! fp8 caches with scales, through the public interface on the CPU, against the definition in f64.

use attn::{Scale, prelude::*};
use attn_core::tensor::Element;
use attn_testing::Host;
use attn_tests::reference::{Formula, Shape, attend};
use attn_tests::setup::{BatchArrays, Tensors, stock_variant};

const HEADS: Heads = Heads { qo: 4, kv: 2, head_dim: 8 };
const DIM: usize = 8;
/// Queries and keys of each request.
const LENS: [(u32, u32); 3] = [(1, 13), (3, 5), (2, 0)];
const TOKENS: usize = 18;
const K_HEADS: [f32; 2] = [0.5, 3.0];
const V_HEADS: [f32; 2] = [1.25, 0.125];

/// Runs `variant` over a cache, ragged or in pages of 4 whose unused slots are NaN.
fn run(variant: &str, tensors: &Tensors, scales: KvScales<'_>, paged: bool) -> Vec<f32> {
    let dtypes = Dtypes::f32().with_kv(tensors.k.dtype());
    let attention = Engine::cpu().attention(&stock_variant(variant), HEADS, dtypes).expect("bound");
    let (qo, kv): (Vec<u32>, Vec<u32>) = LENS.into_iter().unzip();
    let arrays = BatchArrays::new(&qo, &kv, paged.then_some([4, 9]));
    let plan = attention.plan(&arrays.batch(), &mut Engine::cpu().workspace()).expect("planned");
    let in_pages = paged.then(|| tensors.in_pages(plan.layout(), [9, 4]));
    in_pages.as_ref().unwrap_or(tensors).run_with(&plan, scales, RunOptions::default()).expect("runs").o
}

fn near(got: &[f32], want: &[f64]) {
    assert_eq!(got.len(), want.len());
    for (i, (got, want)) in got.iter().zip(want).enumerate() {
        assert!((f64::from(*got) - want).abs() <= 1e-5 * (1.0 + want.abs()), "{i}: {got} for {want}");
    }
}

/// Queries, keys and values of a type, packed.
fn tensors(dtype: Dtype) -> Tensors {
    Tensors::new(HEADS, 6, &[TOKENS]).with_kv(dtype)
}

fn of_type(dtype: Dtype) {
    let tensors = tensors(dtype);
    let lens = LENS.map(|(qo, kv)| (qo.into(), kv.into())).to_vec();
    let shape = Shape { lens, qo_heads: 4, kv_heads: 2, head_dim: DIM as i64, value_dim: DIM as i64 };
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
        let mut packed = tensors.packed();
        for (x, all, heads) in [(&mut packed.k, k_all, K_HEADS), (&mut packed.v, v_all, V_HEADS)] {
            x.iter_mut().enumerate().for_each(|(i, x)| *x *= of(all, heads, i / DIM % 2));
        }
        let want = |formula| attend(&formula, &shape, &packed, 1.0 / 8f64.sqrt()).o;
        for paged in [false, true] {
            near(&run("full", &tensors, scales, paged), &want(Formula::plain()));
            // hooks read dequantised elements
            let normalised = Formula::plain().value(|v, _| {
                let mean = v.iter().map(|x| x * x).sum::<f64>() / DIM as f64;
                v.iter_mut().for_each(|x| *x /= (mean + 1e-6).sqrt());
            });
            near(&run("value_norm", &tensors, scales, paged), &want(normalised));
        }
    }
}

#[test]
fn stored_elements_are_multiplied_by_their_scales() {
    [Dtype::E4m3, Dtype::E5m2, Dtype::Bf16, Dtype::F32].into_iter().for_each(of_type);
}

#[test]
fn fp8_saturates_and_keeps_nan() {
    let memory = Engine::cpu();
    for (dtype, most) in [(Dtype::E4m3, 448.0), (Dtype::E5m2, 57344.0)] {
        let of = [1e9, f32::NEG_INFINITY, f32::NAN, 0.0];
        let buffer = match dtype {
            Dtype::E4m3 => memory.upload(&of.map(<F8E4M3 as Element>::from_f32)),
            _ => memory.upload(&of.map(<F8E5M2 as Element>::from_f32)),
        };
        let buffer = buffer.expect("memory");
        assert_eq!((buffer.dtype(), buffer.elements()), (dtype, 4));
        let read = memory.download_f32(&buffer).expect("read");
        assert!(read[0] == most && read[1] == -most && read[2].is_nan() && read[3] == 0.0, "{read:?}");
    }
    let tensors = tensors(Dtype::F32);
    let mut v = tensors.v.to_f32();
    v[0] = f32::NAN;
    let v = Host::new(Dtype::E4m3, &v);
    let o = run("full", &Tensors { k: v.clone(), v, ..tensors }, KvScales::default(), false);
    assert!(o[..2 * DIM].iter().all(|x| x.is_nan()) && o[2 * DIM..].iter().all(|x| x.is_finite()), "{o:?}");
}
