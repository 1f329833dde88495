//! Checks the model on a device against logits of other code, and times it. For machines without Rust: the program, a
//! model file and a truth are all that it needs.
//!
//! ```text
//! generate-check --model MODEL.gguf --truth smollm2_truth.json [--cpu] [truth] [invariance] [speed] [products]
//! ```

#![allow(clippy::print_stdout)]

mod harness;
mod invariance;
mod products;
mod speed;
mod truth;

use std::path::PathBuf;

use clap::{Parser, ValueEnum};

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
    /// A residual in f16.
    #[arg(long)]
    half_residual: bool,
    /// Products of up to this many rows run a kernel of this program; 0 for cuBLASLt alone.
    #[arg(long, default_value_t = 4)]
    few_rows: usize,
    /// Perplexities may differ from the truth's by this part: 0.002 for f16, 0.001 on the CPU.
    #[arg(long, default_value_t = 0.002)]
    perplexity: f64,
    /// Tokens may differ from the truth's where its margin is below this.
    #[arg(long, default_value_t = 0.1)]
    margin: f32,
    /// The parts to run; all by default.
    parts: Vec<Part>,
}

impl Options {
    fn has(&self, part: Part) -> bool {
        self.parts.is_empty() || self.parts.contains(&part)
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
