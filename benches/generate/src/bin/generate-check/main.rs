//! Checks the model on a device against logits of other code, and times it. For machines without Rust: the program, a
//! model file and a truth are all that it needs.
//!
//! ```text
//! generate-check --model MODEL.gguf --truth smollm2_truth.json [--cpu] [truth] [invariance] [speed] [products]
//! ```

#![allow(clippy::print_stdout)]

mod invariance;
mod products;
mod speed;
mod truth;

use std::path::PathBuf;

use clap::{Parser, ValueEnum};
use generate::{
    Error,
    model::{
        gguf::Gguf,
        llama::{Device, Llama, LoadOptions},
        math::CudaMathOptions,
        steps::Steps,
    },
};

/// New tokens of a step, at most.
pub(crate) const STEP_TOKENS: usize = 512;
/// Sequences of a step, and logits of a step, at most.
pub(crate) const STEP_SEQUENCES: usize = 64;

/// What is checked.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Part {
    /// Perplexities of texts, and the tokens after prompts.
    Truth,
    /// The same bits alone, in a batch, in chunks, and after a cached prefix.
    Invariance,
    /// Tokens per second, and the time of the host.
    Speed,
    /// Products of a few rows by the kernel of this program and by cuBLASLt. It needs no file.
    Products,
}

/// The command line.
#[derive(Debug, Parser)]
pub(crate) struct Options {
    /// The model, a GGUF file.
    #[arg(long, default_value = "model.gguf")]
    model: PathBuf,
    /// The truth: texts and prompts with tokens, perplexities and margins.
    #[arg(long, default_value = "smollm2_truth.json")]
    truth: PathBuf,
    /// Runs on the CPU.
    #[arg(long)]
    cpu: bool,
    /// Products of up to this many rows run a kernel of this program; 0 for cuBLASLt alone.
    #[arg(long, default_value_t = 4)]
    few_rows: usize,
    /// Perplexities may differ from the truth's by this part: 0.002 for f16, 0.001 on the CPU.
    #[arg(long, default_value_t = 0.002)]
    perplexity: f64,
    /// Tokens may differ from the truth's where its margin is below this.
    #[arg(long, default_value_t = 0.1)]
    margin: f32,
    /// Logits may differ from the truth's by this; by default by anything.
    #[arg(long, default_value_t = f32::INFINITY)]
    logits: f32,
    /// The parts to run; all by default.
    parts: Vec<Part>,
}

impl Options {
    fn has(&self, part: Part) -> bool {
        self.parts.is_empty() || self.parts.contains(&part)
    }

    /// Steps of the model on the device.
    fn steps(&self, invariant: bool, draws: bool) -> Result<Steps, Error> {
        let load = LoadOptions {
            device: if self.cpu { Device::Cpu } else { Device::Cuda },
            batch_invariant: Some(invariant),
            step_tokens: STEP_TOKENS,
            step_sequences: STEP_SEQUENCES,
            step_rows: STEP_SEQUENCES,
            cache_tokens: 65_536,
            cuda: CudaMathOptions { few_rows: self.few_rows, ..CudaMathOptions::default() },
            draws,
            ..LoadOptions::default()
        };
        let file = Gguf::open(&self.model)?;
        // no token ends a text here
        Steps::new(Llama::new(&file.config()?, &file, 0, &load)?)
    }
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let options = Options::parse();
    if options.parts == [Part::Products] {
        return Ok(products::run()?);
    }
    let truth = truth::Truth::read(&options.truth)?;
    let mut wrong = 0;
    if options.has(Part::Truth) {
        wrong += truth::check(&options, &truth)?;
    }
    if options.has(Part::Invariance) {
        wrong += invariance::check(&options, &truth)?;
    }
    if options.has(Part::Speed) {
        speed::run(&options)?;
    }
    if options.has(Part::Products) && !options.cpu {
        products::run()?;
    }
    if wrong > 0 {
        return Err(format!("{wrong} checks failed").into());
    }
    Ok(())
}
