//! Preparing kernels on the CPU, where there are none: what planning refuses is refused.

use attn::ops::{KvTransform, Op};
use attn::prelude::*;
use attn::{Error, PrepareOptions, Workload};

const HEADS: Heads = Heads { qo: 4, kv: 2, head_dim: 8 };

#[test]
fn the_cpu_prepares_nothing() {
    let engine = Engine::cpu();
    let variant = Variant::parse("rope").expect("stock");
    let attention = engine.attention(&variant, HEADS, Dtypes::f32()).expect("sound");
    let transform = KvTransform::new(&engine, &variant, HEADS).expect("sound");
    let needs = [
        Workload::Batch { attention: &attention, batch: &Batch::ragged(&[0, 1], &[0, 9]) },
        Workload::Capacity { attention: &attention, capacity: BatchCapacity::decode(4, 100) },
        Workload::DeviceUpdates { attention: &attention },
        Workload::Op { op: Op::Copy },
        Workload::Append { transform: &transform, from: Dtype::F32, to: Dtype::E4m3 },
    ];
    let mut calls = 0;
    let mut count = |_: attn::Progress<'_>| calls += 1;
    let options = PrepareOptions { threads: Some(2), progress: Some(&mut count) };
    let report = engine.prepare_with(&needs, options).expect("sound");
    assert_eq!((report.kernels(), calls), (0, 0));
}

#[test]
fn what_planning_refuses_is_refused() {
    let engine = Engine::cpu();
    let variant = Variant::parse("causal").expect("stock");
    let attention = engine.attention(&variant, HEADS, Dtypes::f32()).expect("sound");
    let backwards = Batch::ragged(&[0, 3, 2], &[0, 5, 9]);
    let error = engine
        .prepare(&[Workload::Op { op: Op::Lse }, Workload::Batch { attention: &attention, batch: &backwards }])
        .expect_err("backwards");
    assert!(matches!(error, Error::Batch(_)), "{error}");
    let too_many = BatchCapacity::decode(1, u32::MAX);
    let error =
        engine.prepare(&[Workload::Capacity { attention: &attention, capacity: too_many }]).expect_err("too many keys");
    assert!(matches!(error, Error::Batch(_)), "{error}");
}
