//! One engine from upload to download, and objects of the wrong backend.

use attn::{Error, ErrorKind, Out, prelude::*};
use attn_core::tensor::TensorError;
use attn_kernels::cost::CostTable;

const HEADS: Heads = Heads { qo: 2, kv: 1, head_dim: 8 };

#[test]
fn a_run_on_the_cpu_end_to_end() {
    let engine = Engine::cpu();
    let attention = engine.attention(&Variant::full(), HEADS, Dtypes::f32()).expect("bound");
    let mut workspace = engine.workspace();
    let plan = attention.plan(&Batch::ragged(&[0, 1, 2], &[0, 3, 3]), &mut workspace).expect("planned");
    let q = engine.upload(&[0.5f32; 2 * 2 * 8]).expect("memory");
    let kv = engine.upload(&[2.0f32; 3 * 8]).expect("memory");
    let mut o = engine.alloc(Dtype::F32, 2 * 2 * 8).expect("memory");
    let mut lse = engine.alloc(Dtype::F32, 2 * 2).expect("memory");
    let stream = engine.stream().expect("a token");
    let keys = || kv.tensor(&[3, 1, 8]).expect("fits");
    let out = Out::with_lse(o.tensor_mut(&[2, 2, 8]).expect("fits"), lse.tensor_mut(&[2, 2]).expect("fits"));
    plan.run(&stream, q.tensor(&[2, 2, 8]).expect("fits"), Kv::ragged(keys(), keys()), out).expect("runs");
    let o = engine.download::<f32>(&o).expect("f32");
    assert!(o[..16].iter().all(|x| (x - 2.0).abs() < 1e-6) && o[16..].iter().all(|&x| x == 0.0), "{o:?}");
    let lse = engine.download_f32(&lse).expect("f32");
    assert!((lse[0] - (8.0 / 8f32.sqrt() + 3f32.ln())).abs() < 1e-5 && lse[2] == f32::NEG_INFINITY, "{lse:?}");
}

#[test]
fn objects_of_the_wrong_backend_or_type_are_named() {
    let engine = Engine::cpu();
    let attention = engine.attention(&Variant::full(), HEADS, Dtypes::f32()).expect("bound");
    let plan = attention.plan(&Batch::ragged(&[0, 1], &[0, 1]), &mut engine.workspace()).expect("planned");
    let stream = engine.stream().expect("a token");
    let data = engine.upload(&[0f32; 16]).expect("memory");
    let mut o = engine.alloc(Dtype::F32, 16).expect("memory");
    // SAFETY: the pointer is never dereferenced: the CPU backend refuses device memory.
    let foreign = unsafe { TensorRef::device(0x1000, Dtype::F32, &[1, 1, 8], &[8, 8, 1]) }.expect("a shape");
    let q = data.tensor(&[1, 2, 8]).expect("fits");
    let out = Out::new(o.tensor_mut(&[1, 2, 8]).expect("fits"));
    let error = plan.run(&stream, q, Kv::ragged(foreign, foreign), out).expect_err("device memory");
    assert!(error.to_string().contains("device") && error.to_string().contains("host"), "{error}");

    assert!(matches!(data.tensor(&[17]), Err(Error::Tensor(TensorError::Extent { .. }))));
    assert!(matches!(engine.download::<f16>(&data), Err(Error::Elements { .. })));
    let three = Heads { qo: 2, kv: 3, head_dim: 8 };
    assert!(matches!(engine.attention(&Variant::full(), three, Dtypes::f32()), Err(Error::Heads(_))));
    assert!(matches!(attention.plan(&Batch::ragged(&[0, 1], &[0]), &mut engine.workspace()), Err(Error::Batch(_))));
}

#[test]
fn costs_are_loaded_into_any_engine_and_others_are_refused() {
    let about = r#"{"about": {"arch": "sm_90"}}"#;
    let row = concat!(
        r#"{"kernel": "decode", "rows": 8, "kv": "16-bit", "head_dim": 128, "hooks": "none", "ctas_per_sm": 2, "#,
        r#""launch": 5000, "item": 900, "block": 2100, "first": 0, "merge_launch": 900, "merge": 140}"#,
    );
    let costs = CostTable::parse(&format!("{about}\n{row}")).expect("sound");
    let engine = Engine::auto().expect("an engine").with_costs(&costs);
    let heads = Heads { qo: 4, kv: 1, head_dim: 128 };
    let attention = engine.attention(&Variant::full(), heads, Dtypes::f16()).expect("bound");
    assert_eq!(attention.heads(), heads);

    let error = Error::from(CostTable::parse(row).expect_err("of no GPU"));
    assert!(matches!(error, Error::Costs(_)) && error.kind() == ErrorKind::InvalidArgument, "{error}");
    assert!(error.to_string().contains("keep the first line that `attn calibrate` writes"), "{error}");
}

#[test]
fn without_a_gpu_auto_is_the_cpu_and_cuda_says_why() {
    match Engine::cuda(0) {
        Ok(engine) => assert!(!engine.is_cpu()),
        Err(error) => {
            assert!(error.to_string().contains("Engine::cpu()") || error.to_string().contains("device 0"), "{error}");
            assert!(Engine::auto().expect("the CPU is always there").is_cpu());
        }
    }
}
