//! A small Llama of random weights over a paged cache against the same model by candle's own ops, request by request.

use std::collections::HashMap;

use crate::support::{causal, devices, reference, values};
use attn_cache::{Pages, Sequence, StepCapacity};
use attn_candle::{
    AttentionOptions, BatchCapacity, Dtypes, Engine, Heads, KvStored,
    llama::{Llama, PagedKv, Step},
};
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
    let mut add = |name: String, shape: &[usize]| {
        let (mean, deviation) = if shape.len() == 1 { (1.0, 0.1) } else { (0.0, 0.15f32) };
        weights.insert(format!("{name}.weight"), Tensor::randn(mean, deviation, shape, &Device::Cpu)?);
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
        Tensor::from_vec(table, (tokens, 1, half), &Device::Cpu)
    };
    let (sin, cos) = (table(f64::sin)?, table(f64::cos)?);
    let (a, b) = (x.narrow(2, 0, half)?, x.narrow(2, half, half)?);
    let first = (a.broadcast_mul(&cos)? - b.broadcast_mul(&sin)?)?;
    Tensor::cat(&[first, (b.broadcast_mul(&cos)? + a.broadcast_mul(&sin)?)?], 2)
}

/// The logits of the last token of one request, without a cache.
fn by_candle(weights: &Weights, tokens: &[u32]) -> Result<Vec<f32>> {
    let get = |name: String| &weights[&format!("{name}.weight")];
    let norm = |x: &Tensor, name: String| {
        let mean = (x.sqr()?.mean_keepdim(D::Minus1)? + 1e-5)?;
        x.broadcast_div(&mean.sqrt()?)?.broadcast_mul(get(name))
    };
    let mut x = get("model.embed_tokens".to_owned()).index_select(&Tensor::new(tokens, &Device::Cpu)?, 0)?;
    for layer in 0..LAYERS {
        let linear = |x: &Tensor, name: &str| x.matmul(&get(format!("model.layers.{layer}.{name}")).t()?);
        let normed = norm(&x, format!("model.layers.{layer}.input_layernorm"))?;
        let rows = |name| linear(&normed, name)?.reshape((tokens.len(), (), 16));
        let (q, k) = (rotated(&rows("self_attn.q_proj")?)?, rotated(&rows("self_attn.k_proj")?)?);
        let o = reference(&q, &k, &rows("self_attn.v_proj")?, causal(tokens.len(), tokens.len()))?;
        x = (x + linear(&o.reshape((tokens.len(), ()))?, "self_attn.o_proj")?)?;
        let normed = norm(&x, format!("model.layers.{layer}.post_attention_layernorm"))?;
        let gated = (linear(&normed, "mlp.gate_proj")?.silu()? * linear(&normed, "mlp.up_proj")?)?;
        x = (x + linear(&gated, "mlp.down_proj")?)?;
    }
    let last = norm(&x.narrow(0, tokens.len() - 1, 1)?, "model.norm".to_owned())?;
    Ok(values(&last.matmul(&get("lm_head".to_owned()).t()?)?))
}

#[test]
fn a_paged_llama_has_the_logits_of_candle() -> Result<()> {
    let weights = weights()?;
    for device in devices() {
        let (dtype, dtypes, tolerance) = match device.is_cpu() {
            true => (DType::F32, Dtypes::f32(), 1e-4),
            false => (DType::F16, Dtypes::f16(), 5e-2),
        };
        let options = AttentionOptions { stored: KvStored::Transformed, ..Default::default() };
        let attention = Engine::new(&device)?.attention_with("causal + rope(theta=1000)", HEADS, dtypes, options)?;
        let load = |name: &str| weights[name].to_dtype(dtype)?.to_device(&device);
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
            let (ids, last) = (Tensor::new(ids, &device)?, Tensor::new(last, &device)?);
            let logits = model.forward(&ids, step, &cache, &last)?;
            let logits = values(&logits);
            tables.commit(&mut sequences[..]);
            for (text, logits) in texts.iter_mut().zip(logits.chunks(VOCABULARY)) {
                let want = by_candle(&weights, text)?;
                let worst = logits.iter().zip(&want).map(|(a, b)| (a - b).abs()).fold(0f32, f32::max);
                assert!(worst < tolerance, "round {round}: {worst} on {:?}", device.location());
                let best = (0..VOCABULARY).max_by(|&a, &b| want[a].total_cmp(&want[b])).unwrap_or(0);
                text.push(best as u32);
            }
        }
    }
    Ok(())
}
