//! A small Llama of random weights over a paged cache against the same model by candle's own ops, request by request.

use std::collections::HashMap;

use crate::accuracy::{Allowed, Errors, greedy};
use crate::support::{causal, devices, reference, values};
use attn_cache::{Pages, Sequence, StepCapacity};
use attn_candle::llama::{Llama, PagedKv, Step};
use attn_candle::{AttentionOptions, BatchCapacity, Dtypes, Engine, Heads, KvStored};
use candle_core::{D, DType, Device, Result, Tensor};

const HEADS: Heads = Heads { qo: 4, kv: 2, head_dim: 16 };
const HIDDEN: usize = 64;
const FFN: usize = 96;
const VOCABULARY: usize = 50;
const LAYERS: usize = 2;
const THETA: f64 = 1000.0;

type Weights = HashMap<String, Tensor>;

fn weights() -> Result<Weights> {
    let mut weights = Weights::new();
    let mut random = 1u64;
    // about normal, with a deviation of 1
    let mut normal = || {
        let uniform = |_| {
            random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            (random >> 40) as f32 / (1 << 24) as f32 - 0.5
        };
        (0..12).map(uniform).sum::<f32>()
    };
    let mut add = |name: String, shape: &[usize]| {
        let (mean, deviation) = if shape.len() == 1 { (1.0, 0.1) } else { (0.0, 0.15) };
        let values = (0..shape.iter().product()).map(|_| mean + deviation * normal()).collect();
        weights.insert(format!("{name}.weight"), Tensor::from_vec(values, shape, &Device::Cpu)?);
        Ok::<_, candle_core::Error>(())
    };
    let kv = (HEADS.kv * HEADS.head_dim) as usize;
    for layer in 0..LAYERS {
        for (name, shape) in [
            ("self_attn.q_proj", &[HIDDEN, HIDDEN][..]),
            ("self_attn.k_proj", &[kv, HIDDEN]),
            ("self_attn.v_proj", &[kv, HIDDEN]),
            ("self_attn.o_proj", &[HIDDEN, HIDDEN]),
            ("mlp.gate_proj", &[FFN, HIDDEN]),
            ("mlp.up_proj", &[FFN, HIDDEN]),
            ("mlp.down_proj", &[HIDDEN, FFN]),
            ("input_layernorm", &[HIDDEN]),
            ("post_attention_layernorm", &[HIDDEN]),
        ] {
            add(format!("model.layers.{layer}.{name}"), shape)?;
        }
    }
    add("model.embed_tokens".to_owned(), &[VOCABULARY, HIDDEN])?;
    add("model.norm".to_owned(), &[HIDDEN])?;
    add("lm_head".to_owned(), &[VOCABULARY, HIDDEN])?;
    Ok(weights)
}

/// Half-split rotary embedding of (tokens, heads, dim), from position 0 on.
fn rotated(x: &Tensor) -> Result<Tensor> {
    let (tokens, _, dim) = x.dims3()?;
    let half = dim / 2;
    let angle = |token: usize, i: usize| token as f64 * THETA.powf(-2.0 * i as f64 / dim as f64);
    let table = |of: fn(f64) -> f64| {
        let table = (0..tokens * half).map(|at| of(angle(at / half, at % half)) as f32).collect();
        Tensor::from_vec(table, (tokens, 1, half), &Device::Cpu)?.to_dtype(x.dtype())
    };
    let (sin, cos) = (table(f64::sin)?, table(f64::cos)?);
    let (a, b) = (x.narrow(2, 0, half)?, x.narrow(2, half, half)?);
    let first = (a.broadcast_mul(&cos)? - b.broadcast_mul(&sin)?)?;
    Tensor::cat(&[first, (b.broadcast_mul(&cos)? + a.broadcast_mul(&sin)?)?], 2)
}

/// The logits of the last token of one request, without a cache, in the type of the weights.
fn by_candle(weights: &Weights, tokens: &[u32]) -> Result<Vec<f32>> {
    let get = |name: String| &weights[&format!("{name}.weight")];
    let norm = |x: &Tensor, name: String| {
        let wide = x.to_dtype(DType::F32)?;
        let mean = (wide.sqr()?.mean_keepdim(D::Minus1)? + 1e-5)?;
        wide.broadcast_div(&mean.sqrt()?)?.broadcast_mul(&get(name).to_dtype(DType::F32)?)?.to_dtype(x.dtype())
    };
    let mut x = get("model.embed_tokens".to_owned()).index_select(&Tensor::new(tokens, &Device::Cpu)?, 0)?;
    for layer in 0..LAYERS {
        let linear = |x: &Tensor, name: &str| x.matmul(&get(format!("model.layers.{layer}.{name}")).t()?);
        let normed = norm(&x, format!("model.layers.{layer}.input_layernorm"))?;
        let rows = |name| linear(&normed, name)?.reshape((tokens.len(), (), 16));
        let (q, k) = (rotated(&rows("self_attn.q_proj")?)?, rotated(&rows("self_attn.k_proj")?)?);
        let o = reference(&q, &k, &rows("self_attn.v_proj")?, causal(tokens.len(), tokens.len()))?;
        x = (&x + linear(&o.to_dtype(x.dtype())?.reshape((tokens.len(), ()))?, "self_attn.o_proj")?)?;
        let normed = norm(&x, format!("model.layers.{layer}.post_attention_layernorm"))?;
        let gated = (linear(&normed, "mlp.gate_proj")?.silu()? * linear(&normed, "mlp.up_proj")?)?;
        x = (x + linear(&gated, "mlp.down_proj")?)?;
    }
    let last = norm(&x.narrow(0, tokens.len() - 1, 1)?, "model.norm".to_owned())?;
    Ok(values(&last.matmul(&get("lm_head".to_owned()).t()?)?))
}

fn in_type(weights: &Weights, dtype: DType) -> Result<Weights> {
    weights.iter().map(|(name, weight)| Ok((name.clone(), weight.to_dtype(dtype)?))).collect()
}

/// In types of 16 bits: no further from f32 than the same model by candle's ops in that type is.
#[test]
fn a_paged_llama_has_the_logits_of_candle() -> Result<()> {
    let weights = weights()?;
    for device in devices() {
        for (dtype, dtypes) in [(DType::F32, Dtypes::f32()), (DType::F16, Dtypes::f16()), (DType::BF16, Dtypes::bf16())]
        {
            let weights = in_type(&weights, dtype)?;
            let wide = in_type(&weights, DType::F32)?;
            let (mut ours, mut own) = (Errors::default(), Errors::default());
            run(&weights, &device, dtypes, |text, got| {
                let want = by_candle(&wide, text)?;
                ours.add(&want, got);
                own.add(&want, &by_candle(&weights, text)?);
                Ok(greedy(&want) as u32)
            })?;
            let allowed = if dtype == DType::F32 { Allowed::F32 } else { Allowed::beside(&own) };
            if let Err(why) = ours.check(allowed) {
                let tokens = ours.other_tokens();
                panic!("{dtype:?} on {:?}: {why}; {tokens} other tokens; by candle {own:?}", device.location());
            }
        }
    }
    Ok(())
}

/// Runs the paged model. `next` gets each text with its logits, and returns the next token.
fn run(
    weights: &Weights,
    device: &Device,
    dtypes: Dtypes,
    mut next: impl FnMut(&[u32], &[f32]) -> Result<u32>,
) -> Result<()> {
    let options = AttentionOptions { stored: KvStored::Transformed, ..Default::default() };
    let attention = Engine::new(device)?.attention_with("causal + rope(theta=1000)", HEADS, dtypes, options)?;
    let load = |name: &str| weights[name].to_device(device);
    let model = Llama::load(LAYERS, 1e-5, load)?;
    let cache = PagedKv::new(&attention, LAYERS, 12, 16)?;

    // attn-cache says where keys go: requests of 1, 5 and 21 tokens, then 14 steps that decode all of them
    let wrap = |error: attn_cache::CacheError| candle_core::Error::wrap(error);
    let pages = Pages::new(12, 16).map_err(wrap)?;
    let capacity = StepCapacity { sequences: 3, tokens: 32, pages: 12, pages_per_sequence: 3, levels: 1 };
    let mut tables = attn_cache::Step::new(&pages, capacity).map_err(wrap)?;
    let mut sequences = [0, 1, 2].map(|_| Sequence::new(&pages));
    let mut texts: Vec<Vec<u32>> = [1, 5, 21].map(|len| (0..len).map(|i| (i * 7 + len) % 50).collect()).to_vec();
    let mut decoding: Option<Step> = None;
    for round in 0..15 {
        let new = |text: &Vec<u32>| if round == 0 { text.len() } else { 1 };
        let mut last: Vec<u32> = Vec::new();
        let mut ids: Vec<u32> = Vec::new();
        for (sequence, text) in sequences.iter_mut().zip(&texts) {
            sequence.append(new(text)).map_err(wrap)?;
            ids.extend(&text[text.len() - new(text)..]);
            last.push(ids.len() as u32 - 1);
        }
        tables.build(&sequences[..]).map_err(wrap)?;
        let arrays = tables.arrays();
        // the plan of the prompts runs once; that of decoding is updated in place
        let prompts;
        let step = if round == 0 {
            prompts = Step::new(&attention, &arrays.batch(), arrays.slots, arrays.positions)?;
            &prompts
        } else if let Some(step) = &mut decoding {
            step.update(&arrays.batch(), arrays.slots, arrays.positions)?;
            &*step
        } else {
            let capacity = BatchCapacity::decode(3, 3 * 48).in_pages(16, 12);
            let step = Step::within(&attention, capacity, &arrays.batch(), arrays.slots, arrays.positions)?;
            &*decoding.insert(step)
        };
        let (ids, last) = (Tensor::new(ids, device)?, Tensor::new(last, device)?);
        let logits = values(&model.forward(&ids, step, &cache, &last)?);
        tables.commit(&mut sequences[..]);
        for (text, logits) in texts.iter_mut().zip(logits.chunks(VOCABULARY)) {
            text.push(next(text, logits)?);
        }
    }
    Ok(())
}
