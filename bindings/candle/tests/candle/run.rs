//! Runs of plans against attention by candle's own ops.

use crate::support::{assert_close, causal, devices, reference, reference_with, tolerance, values};
use attn::{VariantParams, attention_variant, compose, lang::LogitIndex, prelude::AttentionVariant};
use attn_candle::{
    AttentionOptions, Batch, BatchCapacity, BlockTable, DeviceLevel, DeviceTable, Dtype, Dtypes, Engine, HeadDimVo,
    Heads, Kv, PageOrder, PageTable, PlanOptions, RunOptions, attend, attend_varlen, attn,
};
use candle_core::{DType, Device, IndexOp, Result, Tensor};

const HEADS: Heads = Heads { qo: 4, kv: 2, head_dim: 64 };

fn random(shape: &[usize], dtype: DType, device: &Device) -> Tensor {
    Tensor::randn(0f32, 1.0, shape, &Device::Cpu)
        .and_then(|of| of.to_dtype(dtype))
        .and_then(|of| of.to_device(device))
        .expect("memory")
}

/// Element types of attention, by candle's names.
fn dtypes(device: &Device) -> Vec<(DType, Dtypes)> {
    let all = [(DType::F32, Dtypes::f32()), (DType::F16, Dtypes::f16()), (DType::BF16, Dtypes::bf16())];
    all.into_iter().filter(|(dtype, _)| device.is_cpu() || *dtype != DType::F32).collect()
}

#[test]
fn ragged_requests() -> Result<()> {
    for device in devices() {
        let engine = Engine::new(&device)?;
        for (dtype, dtypes) in dtypes(&device) {
            let attention = engine.attention("causal", HEADS, dtypes)?;
            let (lens, keys) = ([3usize, 1, 40], [3usize, 70, 100]);
            let ends = |lens: &[usize]| {
                let mut end = 0;
                [0].into_iter()
                    .chain(lens.iter().map(|&len| {
                        end += len as i32;
                        end
                    }))
                    .collect::<Vec<i32>>()
            };
            let (qo_indptr, kv_indptr) = (ends(&lens), ends(&keys));
            let q = random(&[44, 4, 64], dtype, &device);
            let (k, v) = (random(&[173, 2, 64], dtype, &device), random(&[173, 2, 64], dtype, &device));
            let o = attention.varlen(&q, &k, &v, &qo_indptr, &kv_indptr)?;
            assert_eq!(o.dtype(), dtype);
            let again = attend_varlen(&q, &k, &v, "causal", &qo_indptr, &kv_indptr)?;
            assert_eq!(values(&o), values(&again));
            for (i, (&queries, &of)) in lens.iter().zip(&keys).enumerate() {
                let row = |of: &Tensor, ends: &[i32]| of.i(ends[i] as usize..ends[i + 1] as usize);
                let (k, v) = (row(&k, &kv_indptr)?, row(&v, &kv_indptr)?);
                let want = reference(&row(&q, &qo_indptr)?, &k, &v, causal(queries, of))?;
                assert_close(&row(&o, &qo_indptr)?, &want, tolerance(dtype));
            }
        }
    }
    Ok(())
}

#[test]
fn dense_requests_in_any_strides() -> Result<()> {
    for device in devices() {
        let dtype = if device.is_cpu() { DType::F32 } else { DType::BF16 };
        let q = random(&[2, 5, 4, 64], dtype, &device);
        // as candle's caches have them: (batch, heads, keys, dim)
        let (k, v) = (random(&[2, 2, 9, 64], dtype, &device), random(&[2, 2, 9, 64], dtype, &device));
        let (k, v) = (k.transpose(1, 2)?, v.transpose(1, 2)?);
        let o = attend(&q, &k, &v, "causal")?;
        let copied = attend(&q, &k.contiguous()?, &v.contiguous()?, "causal")?;
        for i in 0..2 {
            let want = reference(&q.i(i)?, &k.i(i)?, &v.i(i)?, causal(5, 9))?;
            assert_close(&o.i(i)?, &want, tolerance(dtype));
            assert_close(&copied.i(i)?, &want, tolerance(dtype));
        }
        // one request needs no copy, however its queries lie
        let one = q.i(..1)?.transpose(1, 2)?.contiguous()?.transpose(1, 2)?;
        assert_close(&attend(&one, &k.i(..1)?, &v.i(..1)?, "causal")?.i(0)?, &o.i(0)?, tolerance(dtype));
        // q, k and v as parts of one projection
        let all = random(&[1, 7, (4 + 2 + 2) * 64], dtype, &device).reshape((1, 7, 8, 64))?;
        let [q, k, v] = [(0, 4), (4, 2), (6, 2)].map(|(first, heads)| all.narrow(2, first, heads));
        let (q, k, v) = (q?, k?, v?);
        let want = reference(&q.i(0)?, &k.i(0)?, &v.i(0)?, causal(7, 7))?;
        assert_close(&attend(&q, &k, &v, "causal")?.i(0)?, &want, tolerance(dtype));
    }
    Ok(())
}

#[test]
fn dense_requests_without_keys_or_queries() -> Result<()> {
    for device in devices() {
        let dtype = if device.is_cpu() { DType::F32 } else { DType::BF16 };
        for (batch, queries, keys) in [(0, 3, 5), (2, 0, 5), (2, 3, 0), (2, 0, 0)] {
            let q = random(&[batch, queries, 4, 64], dtype, &device);
            let cache = random(&[batch, 2, keys, 64], dtype, &device).transpose(1, 2)?;
            for k in [&cache, &cache.contiguous()?] {
                let o = attend(&q, k, k, "causal")?;
                assert_eq!(o.dims(), q.dims());
                assert!(values(&o).iter().all(|&x| x == 0.0), "rows without keys");
            }
        }
    }
    Ok(())
}

/// A variant of one's own: logits grow with the distance in parts of `1 / span`.
#[derive(Clone, Debug, VariantParams)]
struct Distance {
    span: f32,
}

#[attention_variant]
impl AttentionVariant for Distance {
    fn logits_transform(&self, logit: f32, at: LogitIndex) -> f32 {
        logit + (at.qo_pos - at.kv_pos) as f32 / self.span
    }
}

#[test]
fn variants_by_expression_and_by_value() -> Result<()> {
    for device in devices() {
        let engine = Engine::new(&device)?;
        let (dtype, dtypes) = dtypes(&device)[0];
        let (q, k) = (random(&[6, 4, 64], dtype, &device), random(&[20, 2, 64], dtype, &device));
        let run = |attention: attn_candle::Attention| attention.varlen(&q, &k, &k, &[0, 6], &[0, 20]);
        let capped = run(engine.attention("soft_cap(cap=2)", HEADS, dtypes)?)?;
        let want = reference_with(&q, &k, &k, |_, _| true, |logits| (logits / 2.0)?.tanh()? * 2.0)?;
        assert_close(&capped, &want, tolerance(dtype));

        let variant = compose!(attn::stock::Causal, Distance { span: 4.0 });
        let own = run(engine.attention(&variant, HEADS, dtypes)?)?;
        let distances: Vec<f32> = (0..6).flat_map(|i| (0..20).map(move |j| (i + 14 - j) as f32 / 4.0)).collect();
        let distances = Tensor::from_vec(distances, (6, 20), &Device::Cpu)?;
        let want = reference_with(&q, &k, &k, causal(6, 20), |logits| logits.broadcast_add(&distances))?;
        assert_close(&own, &want, tolerance(dtype));
    }
    Ok(())
}

/// Pools of 12 pages of 16 slots, two requests of 20 and 33 keys in scattered pages, and their keys in order.
struct Paged {
    k: Tensor,
    v: Tensor,
    keys: [Tensor; 2],
    values: [Tensor; 2],
}

const PAGES: [&[i32]; 2] = [&[7, 2], &[11, 0, 5]];
const KEYS: [usize; 2] = [20, 33];

fn paged(dtype: DType, device: &Device) -> Result<Paged> {
    let (k, v) = (random(&[12, 16, 2, 64], dtype, device), random(&[12, 16, 2, 64], dtype, device));
    let of = |pool: &Tensor, i: usize| {
        let pages = PAGES[i].iter().map(|&page| pool.i(page as usize)).collect::<Result<Vec<_>>>()?;
        Tensor::cat(&pages, 0)?.i(..KEYS[i])
    };
    let (keys, values) = ([of(&k, 0)?, of(&k, 1)?], [of(&v, 0)?, of(&v, 1)?]);
    Ok(Paged { k, v, keys, values })
}

fn csr(indices: &[i32]) -> PageTable<'_> {
    PageTable { indptr: &[0, 2, 5], indices, last_page_len: &[4, 1], page_size: 16, num_pages: 12 }
}

#[test]
fn pages_in_every_form() -> Result<()> {
    for device in devices() {
        let engine = Engine::new(&device)?;
        for (dtype, dtypes) in dtypes(&device) {
            let attention = engine.attention("causal", HEADS, dtypes)?;
            let Paged { k, v, keys, values: of_values } = paged(dtype, &device)?;
            let q = random(&[4, 4, 64], dtype, &device);
            let want = [
                reference(&q.i(..3)?, &keys[0], &of_values[0], causal(3, 20))?,
                reference(&q.i(3..)?, &keys[1], &of_values[1], causal(1, 33))?,
            ];
            let want = Tensor::cat(&want, 0)?;
            let indices = PAGES.concat();
            let batch = Batch::paged(&[0, 3, 4], &csr(&indices));
            let plan = attention.plan(&batch)?;
            assert_close(&plan.run(&q, &Kv::paged(&k, &v))?, &want, tolerance(dtype));
            // pages of (heads, slots, dim); one pool of keys and values
            let hnd = |pool: &Tensor| pool.transpose(1, 2)?.contiguous();
            let o = plan.run(&q, &Kv::paged_in(&hnd(&k)?, &hnd(&v)?, PageOrder::Hnd))?;
            assert_close(&o, &want, tolerance(dtype));
            let fused = Tensor::stack(&[&k, &v], 1)?;
            assert_close(&plan.run(&q, &Kv::fused(&fused, PageOrder::Nhd))?, &want, tolerance(dtype));
            // views of a pool of all layers
            let layers = Tensor::stack(&[k.zeros_like()?, k.clone()], 0)?;
            let of_values = Tensor::stack(&[v.zeros_like()?, v.clone()], 0)?;
            assert_close(&plan.run(&q, &Kv::paged(&layers.get(1)?, &of_values.get(1)?))?, &want, tolerance(dtype));
            // a block table
            let pages = [7, 2, -1, 11, 0, 5];
            let table = BlockTable { pages: &pages, max_pages: 3, kv_lens: &[20, 33], page_size: 16, num_pages: 12 };
            let o = attention.plan(&Batch::block_table(&[0, 3, 4], &table))?.run(&q, &Kv::paged(&k, &v))?;
            assert_close(&o, &want, tolerance(dtype));
        }
    }
    Ok(())
}

#[test]
fn keys_of_eight_bits_and_values_in_keys() -> Result<()> {
    let device = Device::Cpu;
    let engine = Engine::new(&device)?;
    let q = random(&[3, 4, 64], DType::F32, &device);
    let k = (random(&[10, 2, 64], DType::F32, &device) * 8.0)?.to_dtype(DType::F8E4M3)?;
    let attention = engine.attention("full", HEADS, Dtypes::f32().with_kv(Dtype::E4m3))?;
    let o =
        attention.plan(&Batch::ragged(&[0, 3], &[0, 10]))?.run(&q, &Kv::ragged(&k, &k).with_scales(0.125, 0.125))?;
    let stored = (k.to_dtype(DType::F32)? * 0.125)?;
    assert_close(&o, &reference(&q, &stored, &stored, |_, _| true)?, 2e-5);

    let options = AttentionOptions { head_dim_vo: HeadDimVo::SharedWithKeys(32), ..Default::default() };
    let heads = Heads { kv: 1, ..HEADS };
    let attention = engine.attention_with("full", heads, Dtypes::f32(), options)?;
    let c = random(&[10, 1, 64], DType::F32, &device);
    let o = attention.plan(&Batch::ragged(&[0, 3], &[0, 10]))?.run(&q, &Kv::latent(&c))?;
    assert_eq!(o.dims(), [3, 4, 32]);
    assert_close(&o, &reference(&q, &c, &c.narrow(2, 0, 32)?, |_, _| true)?, 2e-5);
    Ok(())
}

#[test]
fn log_sum_exps_layers_and_tensors_of_the_caller() -> Result<()> {
    for device in devices() {
        let engine = Engine::new(&device)?;
        let (dtype, dtypes) = dtypes(&device)[0];
        let (q, k) = (random(&[2, 4, 64], dtype, &device), random(&[30, 2, 64], dtype, &device));
        let near = engine.attention("causal + sliding_window(window=4)", HEADS, dtypes)?;
        let far = near.with_parameters("causal + sliding_window(window=100)")?;
        let batch = Batch::ragged(&[0, 2], &[0, 30]);
        let plan = near.plan_with(&batch, PlanOptions { layers: &[&far], ..Default::default() })?;
        let kv = Kv::ragged(&k, &k);
        let of_layer = |layer| plan.run_with(&q, &kv, RunOptions { layer, lse: true, ..Default::default() });
        let all = of_layer(Some(&far))?;
        assert_close(&all.o, &reference(&q, &k, &k, causal(2, 30))?, tolerance(dtype));
        let near = of_layer(None)?;
        assert_close(&near.o, &reference(&q, &k, &k, |i, j| j + 2 <= i + 30 && j + 2 + 4 > i + 30)?, tolerance(dtype));
        let (all_lse, near_lse) = (all.lse.expect("asked for"), near.lse.expect("asked for"));
        assert_eq!((all_lse.dims(), all_lse.dtype()), (&[2, 4][..], DType::F32));
        assert!(values(&all_lse).iter().zip(values(&near_lse)).all(|(all, near)| *all > near));

        let (o, lse) = (Tensor::zeros((2, 4, 64), dtype, &device)?, Tensor::zeros((2, 4), DType::F32, &device)?);
        plan.run_into(&q, &kv, &o, Some(&lse), RunOptions { layer: Some(&far), ..Default::default() })?;
        assert_eq!((values(&o), values(&lse)), (values(&all.o), values(&all_lse)));
        let o = o.zeros_like()?;
        plan.run_into(&q, &kv, &o, None, RunOptions::default())?;
        assert_eq!(values(&o), values(&near.o));
    }
    Ok(())
}

#[test]
fn plans_are_updated_in_place() -> Result<()> {
    for device in devices() {
        let engine = Engine::new(&device)?;
        let (dtype, dtypes) = dtypes(&device)[0];
        let attention = engine.attention("causal", HEADS, dtypes)?;
        let Paged { k, v, keys, values: of_values } = paged(dtype, &device)?;
        let capacity = BatchCapacity::decode(2, 64 * 2).in_pages(16, 12);
        let mut indices = PAGES.concat();
        let batch = |indices: &[i32]| Batch::paged(&[0, 1, 2], &csr(indices)).validate().map(drop);
        batch(&indices).map_err(candle_core::Error::wrap)?;
        let mut plan = attention.plan_within(&Batch::paged(&[0, 1, 2], &csr(&indices)), capacity)?;
        let q = random(&[2, 4, 64], dtype, &device);
        let want = |keys: [usize; 2]| {
            let of = |i: usize| {
                let (k, v) = (keys_of(&k, i)?, keys_of(&v, i)?);
                reference(&q.i(i..i + 1)?, &k.i(..keys[i])?, &v.i(..keys[i])?, |_, _| true)
            };
            Tensor::cat(&[of(0)?, of(1)?], 0)
        };
        let run = |plan: &attn_candle::Plan| plan.run(&q, &Kv::paged(&k, &v));
        assert_close(&run(&plan)?, &want(KEYS)?, tolerance(dtype));
        assert_eq!(keys[0].dims(), of_values[0].dims());
        // the host tells the next lengths
        let next =
            PageTable { indptr: &[0, 2, 5], indices: &indices, last_page_len: &[9, 8], page_size: 16, num_pages: 12 };
        plan.update(&Batch::paged(&[0, 1, 2], &next))?;
        assert_close(&run(&plan)?, &want([25, 40])?, tolerance(dtype));
        // tensors on the device do: in compressed rows, and in a table of u32
        let ints = |of: &[i32]| Tensor::from_slice(of, of.len(), &device);
        let (qo, lens) = (ints(&[0, 1, 2])?, ints(&[17, 48])?);
        let table = DeviceTable::Compressed { indptr: &ints(&[0, 2, 5])?, indices: &ints(&indices)? };
        plan.update_on_device(&qo, &lens, Some(table))?;
        assert_close(&run(&plan)?, &want([17, 48])?, tolerance(dtype));
        let table = Tensor::new(&[[7u32, 2, 0], [11, 0, 5]], &device)?;
        plan.update_on_device(&qo, &ints(&[32, 1])?, Some(DeviceTable::Padded(&table)))?;
        plan.device_status()?;
        assert_close(&run(&plan)?, &want([32, 1])?, tolerance(dtype));
        // a refused update changes nothing
        indices[0] = 99;
        let error = plan.update(&Batch::paged(&[0, 1, 2], &csr(&indices))).expect_err("page 99 of 12").to_string();
        assert!(error.contains("99") && error.contains("12"), "{error}");
        assert_close(&run(&plan)?, &want([32, 1])?, tolerance(dtype));
    }
    Ok(())
}

/// Requests behind a page of keys that both see, whose lengths are on the device.
#[test]
fn levels_are_planned_from_tensors() -> Result<()> {
    for device in devices() {
        let engine = Engine::new(&device)?;
        let (dtype, dtypes) = dtypes(&device)[0];
        let attention = engine.attention("causal", HEADS, dtypes)?;
        let Paged { k, v, .. } = paged(dtype, &device)?;
        let capacity = BatchCapacity::decode(2, 64 * 2).in_pages(16, 12).in_levels(2);
        let indices = PAGES.concat();
        let mut plan = attention.plan_within(&Batch::paged(&[0, 1, 2], &csr(&indices)), capacity)?;
        let q = random(&[2, 4, 64], dtype, &device);
        let ints = |of: &[u32]| Tensor::from_slice(of, of.len(), &device);
        let (all, page, both) = (ints(&[0, 2])?, ints(&[9])?, ints(&[16])?);
        let (qo_indptr, lens, own) = (ints(&[0, 1, 2])?, ints(&[5, 20])?, ints(&[2, 11, 0])?);
        let shared = DeviceTable::Compressed { indptr: &ints(&[0, 1])?, indices: &page };
        let table = DeviceTable::Compressed { indptr: &ints(&[0, 1, 3])?, indices: &own };
        let levels = [
            DeviceLevel { qo_indptr: &all, kv_lens: &both, pages: Some(shared) },
            DeviceLevel { qo_indptr: &qo_indptr, kv_lens: &lens, pages: Some(table) },
        ];
        plan.update_levels_on_device(&levels)?;
        plan.device_status()?;
        let of = |pool: &Tensor, pages: &[usize], len: usize| {
            Tensor::cat(&pages.iter().map(|&page| pool.i(page)).collect::<Result<Vec<_>>>()?, 0)?.i(..16 + len)
        };
        let want = |i: usize, pages: &[usize], len: usize| {
            reference(&q.i(i..i + 1)?, &of(&k, pages, len)?, &of(&v, pages, len)?, |_, _| true)
        };
        let want = Tensor::cat(&[want(0, &[9, 2], 5)?, want(1, &[9, 11, 0], 20)?], 0)?;
        assert_close(&plan.run(&q, &Kv::paged(&k, &v))?, &want, tolerance(dtype));
        let error = plan.update_levels_on_device(&[]).expect_err("no level").to_string();
        assert!(error.contains("`levels` is empty"), "{error}");
        // a level more than the capacity has
        let error = plan.update_levels_on_device(&[levels[0], levels[0], levels[1]]).expect_err("3 levels").to_string();
        assert!(error.contains("levels"), "{error}");
    }
    Ok(())
}

/// All slots of the pages of a request.
fn keys_of(pool: &Tensor, i: usize) -> Result<Tensor> {
    let pages = PAGES[i].iter().map(|&page| pool.i(page as usize)).collect::<Result<Vec<_>>>()?;
    Tensor::cat(&pages, 0)
}
