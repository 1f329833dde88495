//! Appends to pools of pages.

use crate::support::{assert_close, devices, reference, values};
use attn_candle::{
    Attention, AttentionOptions, Batch, Dtype, Dtypes, Engine, HeadDimVo, Heads, Kv, KvStored, PageOrder, PageTable,
};
use candle_core::{DType, Device, IndexOp, Result, Tensor};

const HEADS: Heads = Heads { qo: 4, kv: 2, head_dim: 64 };

/// Rows and pools hold the number of their token.
fn numbered(tokens: usize, dtype: DType, device: &Device) -> Result<Tensor> {
    let rows = Tensor::arange(1f32, 1.0 + tokens as f32, &Device::Cpu)?.reshape((tokens, 1, 1))?;
    rows.broadcast_as((tokens, 2, 64))?.contiguous()?.to_dtype(dtype)?.to_device(device)
}

/// The first element of each slot of KV head 0 of pages of (pages, slots, heads, dim).
fn firsts(pool: &Tensor) -> Result<Vec<f32>> {
    Ok(values(&pool.i((.., .., 0, 0))?))
}

fn attention(engine: &Engine) -> Result<Attention> {
    engine.attention("causal", HEADS, if engine.device().is_cpu() { Dtypes::f32() } else { Dtypes::bf16() })
}

#[test]
fn rows_go_to_their_slots_in_every_form() -> Result<()> {
    for device in devices() {
        let engine = Engine::new(&device)?;
        let attention = attention(&engine)?;
        let dtype = if device.is_cpu() { DType::F32 } else { DType::BF16 };
        let k = numbered(4, dtype, &device)?;
        let v = (&k * 10.0)?;
        // pages 2 and 0 of 3 pages of 4 slots; the third row is padding
        let slots = Tensor::new(&[8i64, 11, -1, 2], &device)?;
        let (want_k, zeros) = (vec![0., 0., 4., 0., 0., 0., 0., 0., 1., 0., 0., 2.], vec![0f32; 12]);
        let want_v: Vec<f32> = want_k.iter().map(|x| x * 10.0).collect();
        let new = Kv::ragged(&k, &v);
        let pool = |shape: &[usize]| Tensor::zeros(shape, dtype, &device);

        let (k_pool, v_pool) = (pool(&[3, 4, 2, 64])?, pool(&[3, 4, 2, 64])?);
        attention.append(&new, &Kv::paged(&k_pool, &v_pool), &slots, None)?;
        assert_eq!((firsts(&k_pool)?, firsts(&v_pool)?), (want_k.clone(), want_v.clone()));

        // both pools, and those of another layer, are views of one tensor; in either order
        let all = pool(&[2, 2, 3, 4, 2, 64])?;
        for of in [[0, 1], [1, 0]] {
            let [k_pool, v_pool] = of.map(|part| all.i((of[0], part)));
            let (k_pool, v_pool) = (k_pool?, v_pool?);
            attention.append(&new, &Kv::paged(&k_pool, &v_pool), &slots, None)?;
            assert_eq!((firsts(&k_pool)?, firsts(&v_pool)?), (want_k.clone(), want_v.clone()));
        }

        // the halves of each page, whose elements interleave
        let halves = pool(&[3, 2, 4, 2, 64])?;
        let (k_pool, v_pool) = (halves.i((.., 0))?, halves.i((.., 1))?);
        attention.append(&new, &Kv::paged(&k_pool, &v_pool), &slots, None)?;
        assert_eq!((firsts(&k_pool)?, firsts(&v_pool)?), (want_k.clone(), want_v.clone()));

        let fused = pool(&[3, 2, 2, 4, 64])?;
        attention.append(&new, &Kv::fused(&fused, PageOrder::Hnd), &slots, None)?;
        let [k_part, v_part] = [0, 1].map(|part| fused.i((.., part))?.transpose(1, 2));
        assert_eq!((firsts(&k_part?)?, firsts(&v_part?)?), (want_k.clone(), want_v));

        let latent = pool(&[3, 4, 2, 64])?;
        attention.append(&Kv::latent(&k), &Kv::latent(&latent), &slots, None)?;
        assert_eq!(firsts(&latent)?, want_k);
        assert_ne!(firsts(&latent)?, zeros);
    }
    Ok(())
}

#[test]
fn keys_are_scaled_and_rotated() -> Result<()> {
    for device in devices() {
        let engine = Engine::new(&device)?;
        let (dtype, dtypes) = if device.is_cpu() { (DType::F32, Dtypes::f32()) } else { (DType::BF16, Dtypes::bf16()) };
        let slots = Tensor::new(&[0i64, 1, 2], &device)?;
        let rows = numbered(3, dtype, &device)?;

        let eight = engine.attention("causal", HEADS, dtypes.with_kv(Dtype::E4m3))?;
        let zeros = || Tensor::zeros((1, 4, 2, 64), DType::F8E4M3, &Device::Cpu).and_then(|of| of.to_device(&device));
        let (k_pool, v_pool) = (zeros()?, zeros()?);
        let pools = Kv::paged(&k_pool, &v_pool).with_scales(0.5, 0.25);
        eight.append(&Kv::ragged(&rows, &rows), &pools, &slots, None)?;
        let stored =
            |pool: &Tensor| Ok::<_, candle_core::Error>(values(&pool.to_device(&Device::Cpu)?.i((0, .., 0, 0))?));
        assert_eq!((stored(&k_pool)?, stored(&v_pool)?), (vec![2., 4., 6., 0.], vec![4., 8., 12., 0.]));

        // keys that are rotated when they are appended give what keys that kernels rotate do
        let options = AttentionOptions { stored: KvStored::Transformed, ..Default::default() };
        let rotated = engine.attention_with("causal + rope", HEADS, dtypes, options)?;
        let raw = engine.attention("causal + rope", HEADS, dtypes)?;
        let zeros = || Tensor::zeros((1, 4, 2, 64), dtype, &device);
        let (pools, raw_pools) = ([zeros()?, zeros()?], [zeros()?, zeros()?]);
        let [pools, raw_pools] = [&pools, &raw_pools].map(|[k, v]| Kv::paged(k, v));
        let positions = Tensor::new(&[0u32, 1, 2], &device)?;
        let rows = Tensor::randn(0f32, 1.0, (3, 2, 64), &Device::Cpu)?.to_dtype(dtype)?.to_device(&device)?;
        rotated.append(&Kv::ragged(&rows, &rows), &pools, &slots, Some(&positions))?;
        raw.append(&Kv::ragged(&rows, &rows), &raw_pools, &slots, None)?;
        let q = Tensor::randn(0f32, 1.0, (3, 4, 64), &Device::Cpu)?.to_dtype(dtype)?.to_device(&device)?;
        let table = PageTable { indptr: &[0, 1], indices: &[0], last_page_len: &[3], page_size: 4, num_pages: 1 };
        let run = |of: &Attention, pools| of.plan(&Batch::paged(&[0, 3], &table))?.run(&q, &pools);
        let (got, want) = (run(&rotated, pools)?, run(&raw, raw_pools)?);
        assert_close(&got, &want, crate::support::tolerance(dtype));
        let plain = reference(&q, &rows, &rows, crate::support::causal(3, 3))?;
        assert!(values(&got).iter().zip(values(&plain)).any(|(a, b)| (a - b).abs() > 0.05), "it rotates");
        // rotations need positions
        let error = rotated.append(&Kv::ragged(&rows, &rows), &pools, &slots, None).expect_err("none").to_string();
        assert!(error.contains("position"), "{error}");
    }
    Ok(())
}

#[test]
fn transformed_values_have_their_own_head_dimension() -> Result<()> {
    for device in devices() {
        let engine = Engine::new(&device)?;
        let (dtype, dtypes) = if device.is_cpu() { (DType::F32, Dtypes::f32()) } else { (DType::BF16, Dtypes::bf16()) };
        let random =
            |shape: &[usize]| Tensor::randn(0f32, 1.0, shape, &Device::Cpu)?.to_dtype(dtype)?.to_device(&device);
        let (q, k, v) = (random(&[3, 4, 64])?, random(&[3, 2, 64])?, random(&[3, 2, 32])?);
        let weights: Vec<String> = (1..=32).map(|weight| format!("{}", f64::from(weight) / 16.0)).collect();
        let variant = format!("causal + value_norm(weight=[{}])", weights.join(", "));
        let table = PageTable { indptr: &[0, 1], indices: &[0], last_page_len: &[3], page_size: 4, num_pages: 1 };
        let (slots, positions) = (Tensor::new(&[0i64, 1, 2], &device)?, Tensor::new(&[0u32, 1, 2], &device)?);
        let run = |stored| {
            let options = AttentionOptions { stored, head_dim_vo: HeadDimVo::Dim(32), ..Default::default() };
            let attention = engine.attention_with(variant.as_str(), HEADS, dtypes, options)?;
            let pool = |dim| Tensor::zeros((1, 4, 2, dim), dtype, &device);
            let (k_pool, v_pool) = (pool(64)?, pool(32)?);
            let pools = Kv::paged(&k_pool, &v_pool);
            attention.append(&Kv::ragged(&k, &v), &pools, &slots, Some(&positions))?;
            attention.plan(&Batch::paged(&[0, 3], &table))?.run(&q, &pools)
        };
        assert_close(&run(KvStored::Transformed)?, &run(KvStored::Raw)?, crate::support::tolerance(dtype));
        let shared = AttentionOptions {
            stored: KvStored::Transformed,
            head_dim_vo: HeadDimVo::SharedWithKeys(32),
            ..Default::default()
        };
        let error = engine.attention_with(variant.as_str(), HEADS, dtypes, shared).expect_err("no hook").to_string();
        assert!(error.contains("`value_norm` transforms values"), "{error}");
    }
    Ok(())
}
