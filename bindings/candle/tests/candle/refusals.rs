//! Bad input is an error of candle that says what was asked and what is possible. Nothing is written then.

use crate::support::{devices, values};
use attn_candle::{Batch, Dtype, Dtypes, Engine, Heads, Kv, PageOrder, RunOptions, attend};
use candle_core::{DType, Device, Result, Tensor, Var};

const HEADS: Heads = Heads { qo: 4, kv: 2, head_dim: 64 };

#[track_caller]
fn refused<T>(result: Result<T>, words: &[&str]) {
    let error = result.err().expect("an error").to_string();
    assert!(words.iter().all(|word| error.contains(word)), "{error}");
}

#[test]
fn tensors_that_do_not_fit() -> Result<()> {
    for device in devices() {
        let engine = Engine::new(&device)?;
        let (dtype, dtypes) = if device.is_cpu() { (DType::F32, Dtypes::f32()) } else { (DType::BF16, Dtypes::bf16()) };
        let zeros = |shape: &[usize]| Tensor::zeros(shape, dtype, &device);
        let attention = engine.attention("causal", HEADS, dtypes)?;
        let plan = attention.plan(&Batch::ragged(&[0, 3], &[0, 5]))?;
        let (q, k) = (zeros(&[3, 4, 64])?, zeros(&[5, 2, 64])?);
        let kv = Kv::ragged(&k, &k);
        plan.run(&q, &kv)?;
        // element types
        refused(plan.run(&q.to_dtype(DType::F64)?, &kv), &["`q`", "f64", "to_dtype"]);
        refused(plan.run(&q.to_dtype(DType::F16)?, &kv), &["f16"]);
        refused(plan.run(&q, &Kv::ragged(&k.to_dtype(DType::U32)?, &k)), &["`k`", "u32", "f8e4m3"]);
        // shapes
        refused(plan.run(&zeros(&[3, 4, 32])?, &kv), &["q", "32", "64"]);
        refused(plan.run(&zeros(&[2, 4, 64])?, &kv), &["q", "2", "3"]);
        refused(plan.run(&zeros(&[1, 3, 4, 64])?, &kv), &["`q`", "[1, 3, 4, 64]", "dense"]);
        let short = zeros(&[4, 2, 64])?;
        refused(plan.run(&q, &Kv::ragged(&short, &short)), &["k", "4", "5"]);
        // strides
        let gaps = zeros(&[3, 64, 4])?.transpose(1, 2)?;
        refused(plan.run(&gaps, &kv), &["`q`", "strides", "contiguous()"]);
        // as many keys as heads, in the other order
        let (two, turned) = (attention.plan(&Batch::ragged(&[0, 3], &[0, 2]))?, zeros(&[2, 2, 64])?);
        refused(two.run(&q, &Kv::paged_in(&turned, &turned, PageOrder::Hnd)), &["k pool has rank 3"]);
        let repeated = zeros(&[1, 2, 64])?.broadcast_as((5, 2, 64))?;
        refused(plan.run(&q, &Kv::ragged(&repeated, &k)), &["`k`", "contiguous()"]);
        let dense = zeros(&[2, 4, 3, 64])?.transpose(1, 2)?;
        let keys = zeros(&[2, 3, 2, 64])?;
        refused(attend(&dense, &keys, &keys, "causal"), &["`q`", "contiguous()"]);
        refused(
            attend(&zeros(&[2, 3, 4, 64])?, &keys, &zeros(&[2, 4, 2, 64])?, "causal"),
            &["v of shape [2, 4, 2, 64]"],
        );
        // outputs
        refused(plan.run_into(&q, &kv, &q, None, RunOptions::default()), &["`o`", "memory of its own"]);
        let (o, lse) = (zeros(&[3, 4, 64])?, Tensor::zeros((3, 4), DType::F32, &device)?);
        refused(plan.run_into(&q, &kv, &o, Some(&o), RunOptions::default()), &["`o` and `lse`"]);
        refused(plan.run_into(&q, &kv, &zeros(&[3, 4, 32])?, None, RunOptions::default()), &["o", "32", "64"]);
        let partial = RunOptions { partial: true, ..RunOptions::default() };
        refused(plan.run_with(&q, &kv, partial), &["lse"]);
        // the lock of no tensor is left behind
        plan.run_into(&q, &kv, &o, Some(&lse), partial)?;
    }
    Ok(())
}

#[test]
fn variants_batches_and_plans() -> Result<()> {
    let engine = Engine::new(&Device::Cpu)?;
    refused(engine.attention("casual", HEADS, Dtypes::f32()), &["casual", "causal"]);
    refused(engine.attention("causal", Heads { qo: 3, ..HEADS }, Dtypes::f32()), &["qo_heads = 3", "kv_heads = 2"]);
    let eight = Dtypes::new(Dtype::E4m3, Dtype::E4m3);
    refused(engine.attention("causal", HEADS, eight), &["q and o are e4m3"]);
    refused(engine.attention("causal", HEADS, Dtypes::f32().with_kv(Dtype::U8)), &["KV format", "with `attn`"]);
    let attention = engine.attention("causal", HEADS, Dtypes::f32())?;
    refused(attention.plan(&Batch::ragged(&[0, 3, 2], &[0, 1, 2])), &["qo_indptr"]);
    let mut plan = attention.plan(&Batch::ragged(&[0, 3], &[0, 5]))?;
    refused(plan.update(&Batch::ragged(&[0, 3], &[0, 5])), &["capacity"]);
    let ends = Tensor::new(&[0u32, 3], &Device::Cpu)?;
    let lens = Tensor::new(&[5i64], &Device::Cpu)?;
    refused(plan.update_on_device(&ends, &lens, None), &["`kv_lens`", "i64", "u32 or i32"]);
    Ok(())
}

#[test]
fn appends_that_write_nothing() -> Result<()> {
    let device = Device::Cpu;
    let attention = Engine::new(&device)?.attention("causal", HEADS, Dtypes::f32())?;
    let pool = Tensor::zeros((2, 2, 4, 2, 64), DType::F32, &device)?;
    let (k_pool, v_pool) = (pool.get(0)?, pool.get(1)?);
    let rows = Tensor::ones((2, 2, 64), DType::F32, &device)?;
    let (new, pools) = (Kv::ragged(&rows, &rows), Kv::paged(&k_pool, &v_pool));
    let slots = |of: &[i64]| Tensor::from_slice(of, of.len(), &device);
    refused(attention.append(&new, &pools, &slots(&[0, 8])?, None), &["slots", "8", "7"]);
    refused(attention.append(&new, &pools, &slots(&[0])?, None), &["slots", "1", "2"]);
    refused(attention.append(&new, &pools, &slots(&[0, 1])?.to_dtype(DType::U32)?, None), &["`slots`", "u32", "i64"]);
    refused(attention.append(&pools, &pools, &slots(&[0, 1])?, None), &["shares memory"]);
    // both pools have the same elements, or some
    let one = pool.get(0)?;
    refused(
        attention.append(&new, &Kv::paged(&one, &one), &slots(&[0, 1])?, None),
        &["k pool shares memory with v pool"],
    );
    let shifted = pool.flatten_all()?.narrow(0, 64, one.elem_count())?.reshape(one.dims())?;
    refused(attention.append(&new, &Kv::paged(&one, &shifted), &slots(&[0, 1])?, None), &["k pool shares memory"]);
    // an order and scales are those of the pools
    let turned = Kv::paged_in(&rows, &rows, PageOrder::Hnd);
    refused(attention.append(&turned, &pools, &slots(&[0, 1])?, None), &["given with the pools"]);
    refused(attention.append(&new.with_scales(2.0, 1.0), &pools, &slots(&[0, 1])?, None), &["given with the pools"]);
    let fused = Kv::fused(&pool, PageOrder::Nhd);
    refused(attention.append(&fused, &pools, &slots(&[0, 1])?, None), &["Kv::latent"]);
    assert!(values(&pool).iter().all(|&x| x == 0.0));
    attention.append(&new, &pools, &slots(&[0, 1])?, None)
}

#[test]
fn there_is_no_backward_pass() -> Result<()> {
    let q = Var::zeros((1, 3, 4, 64), DType::F32, &Device::Cpu)?;
    let k = Tensor::zeros((1, 3, 2, 64), DType::F32, &Device::Cpu)?;
    let o = attend(&q, &k, &k, "causal")?;
    refused(o.sum_all()?.backward(), &["attn"]);
    // through the log-sum-exps alone too, for which a gradient of nothing would be wrong
    let attention = Engine::new(&Device::Cpu)?.attention("causal", HEADS, Dtypes::f32())?;
    let plan = attention.plan(&Batch::ragged(&[0, 3], &[0, 3]))?;
    let options = RunOptions { lse: true, ..RunOptions::default() };
    let (q, k) = (q.squeeze(0)?, k.squeeze(0)?);
    let tracked = plan.run_with(&q, &Kv::ragged(&k, &k), options)?.lse.expect("asked for");
    refused(tracked.sum_all()?.backward(), &["attn"]);
    let plain = plan.run_with(&q.detach(), &Kv::ragged(&k, &k), options)?.lse.expect("asked for");
    assert_eq!(values(&tracked), values(&plain));
    Ok(())
}

#[test]
fn tensors_of_another_device() -> Result<()> {
    let devices = devices();
    let (cpu, others) = devices.split_first().expect("the CPU");
    let tensor = |device: &Device| Tensor::zeros((3, 2, 64), DType::F16, device);
    for device in others {
        let heads = Heads { qo: 2, ..HEADS };
        let plan =
            Engine::new(device)?.attention("full", heads, Dtypes::f16())?.plan(&Batch::ragged(&[0, 3], &[0, 3]))?;
        let (here, there) = (tensor(device)?, tensor(cpu)?);
        refused(plan.run(&there, &Kv::ragged(&there, &there)), &["`q`", "Cpu", "Cuda"]);
        refused(plan.run(&here, &Kv::ragged(&there, &there)), &["device mismatch"]);
        refused(
            plan.run_into(&here, &Kv::ragged(&here, &there), &here.zeros_like()?, None, RunOptions::default()),
            &["`v`"],
        );
        refused(plan.run_into(&here, &Kv::ragged(&here, &here), &there, None, RunOptions::default()), &["`o`", "Cpu"]);
    }
    Ok(())
}
