//! The model and the engine: the options that all commands share.

use std::path::PathBuf;

use anyhow::Context as _;
use attn::Dtype;
use serde::Serialize;

use crate::{
    engine::{Engine, EngineConfig, EngineHandle},
    model::{
        Model,
        forward::Cascades,
        llama::{Device, LoadOptions, load},
        tensor_parallel::TensorParallel,
    },
    tokenizer::Tokenizer,
};

/// Which model runs where, and what it may do.
#[derive(Clone, Debug, clap::Args, Serialize)]
#[command(next_help_heading = "Model")]
pub struct ModelArgs {
    /// A GGUF file of a Llama, with the tokenizer of SmolLM2.
    #[arg(long, value_name = "FILE")]
    pub model: Option<PathBuf>,
    /// Where the model runs.
    #[arg(long, value_enum, default_value_t)]
    device: Device,
    /// GPUs that share the model: each has a part of the heads and of their cache. They need NCCL.
    #[arg(long, value_name = "COUNT", default_value_t = 1)]
    gpus: usize,
    /// Tokens of the KV cache, of all texts together.
    #[arg(long, value_name = "TOKENS", default_value_t = LoadOptions::default().cache_tokens)]
    cache_tokens: usize,
    /// Tokens of a page of the KV cache.
    #[arg(long, value_name = "TOKENS", default_value_t = LoadOptions::default().page_size)]
    page_size: usize,
    /// The element type of the KV cache: f16, bf16, f32, e4m3 (fp8) or e5m2; by default that of the device.
    #[arg(long, value_name = "TYPE")]
    #[serde(serialize_with = "name_of_dtype")]
    cache_dtype: Option<Dtype>,
    /// The same bits alone and in any batch, with a warm cache and a cold one; by default on the CPU alone.
    #[arg(long, value_name = "BOOL", num_args = 0..=1, default_missing_value = "true")]
    batch_invariant: Option<bool>,
    /// Tokens of a prompt that a step computes, at most.
    #[arg(long, value_name = "TOKENS", default_value_t = EngineConfig::default().chunk_tokens)]
    chunk_tokens: usize,
    /// Texts that run at a time.
    #[arg(long, value_name = "TEXTS", default_value_t = LoadOptions::default().step_sequences)]
    sequences: usize,
    /// Requests that wait, at most, before further ones are refused.
    #[arg(long, value_name = "REQUESTS", default_value_t = EngineConfig::default().max_waiting)]
    max_waiting: usize,
    /// Compute every prompt whole, without the prefixes of earlier ones.
    #[arg(long)]
    no_prefix_cache: bool,
    /// Attend to shared prefixes once for each text, without cascades.
    #[arg(long)]
    no_cascade: bool,
    /// Tokens to guess ahead by prompt lookup, at most.
    #[arg(long, value_name = "TOKENS", default_value_t = 0)]
    pub speculate: usize,
}

fn name_of_dtype<S: serde::Serializer>(dtype: &Option<Dtype>, serializer: S) -> Result<S::Ok, S::Error> {
    dtype.map(|dtype| dtype.to_string()).serialize(serializer)
}

/// Tokens of prompts whose log-probabilities a step computes, beside the tokens that it draws.
const SCORED_ROWS: usize = 64;

/// A model that runs.
#[derive(Debug)]
pub struct Started {
    /// Its engine.
    pub engine: EngineHandle,
    /// Its tokenizer.
    pub tokenizer: Tokenizer,
    /// Where it runs, in words.
    pub device: String,
}

impl ModelArgs {
    /// Loads the model, for endless texts too if that is asked, and starts its engine. A server has clients that may
    /// leave events unread, and has its memory from the start.
    ///
    /// # Errors
    ///
    /// Sizes of zero, and what [`load`] and [`Engine::new`] refuse.
    pub fn start(&self, endless: bool, serves: bool) -> anyhow::Result<Started> {
        anyhow::ensure!(self.page_size > 0, "a page has at least one token; see --page-size");
        anyhow::ensure!(self.cache_tokens > 0, "the KV cache has at least one token; see --cache-tokens");
        anyhow::ensure!(self.sequences > 0, "at least one text runs at a time; see --sequences");
        anyhow::ensure!(self.chunk_tokens > 0, "a step computes at least one token; see --chunk-tokens");
        anyhow::ensure!(self.gpus > 0, "a model runs on at least one device; see --gpus");
        let options = LoadOptions { endless, resident: serves, ..self.load_options() };
        if self.gpus > 1 {
            anyhow::ensure!(self.device != Device::Cpu, "the CPU is one device; leave out --gpus, or --device cpu");
            let (model, tokenizer) = TensorParallel::load(&options, self.gpus)?;
            let device = model.device();
            return self.spawn(model, tokenizer, device, false, serves);
        }
        let (model, tokenizer) = load(&options)?;
        let (device, is_cpu) = (model.engine().to_string(), model.engine().is_cpu());
        self.spawn(model, tokenizer, device, is_cpu, serves)
    }

    fn spawn<M: Model + 'static>(
        &self,
        model: M,
        tokenizer: Tokenizer,
        device: String,
        is_cpu: bool,
        serves: bool,
    ) -> anyhow::Result<Started> {
        let config = self.engine_config(self.batch_invariant.unwrap_or(is_cpu));
        let max_unread = if serves { config.max_unread } else { usize::MAX };
        let engine = Engine::new(model, EngineConfig { max_unread, ..config })?;
        let engine = EngineHandle::spawn(engine).context("the engine has no thread")?;
        Ok(Started { engine, tokenizer, device })
    }

    fn load_options(&self) -> LoadOptions {
        LoadOptions {
            file: self.model.clone(),
            device: self.device,
            batch_invariant: self.batch_invariant,
            // a chunk beside a token, and guesses, of every other text
            step_tokens: self.chunk_tokens + self.sequences * (1 + self.speculate),
            step_sequences: self.sequences,
            step_rows: self.sequences * (1 + self.speculate) + SCORED_ROWS,
            cache_tokens: self.cache_tokens,
            page_size: self.page_size,
            cache_dtype: self.cache_dtype,
            levels: if self.no_cascade { 0 } else { Cascades::default().levels },
            ..LoadOptions::default()
        }
    }

    fn engine_config(&self, batch_invariant: bool) -> EngineConfig {
        EngineConfig {
            chunk_tokens: self.chunk_tokens,
            batch_invariant,
            reuse_prefixes: !self.no_prefix_cache,
            cascade: !self.no_cascade,
            max_waiting: self.max_waiting,
            ..EngineConfig::default()
        }
    }
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;

    #[derive(Debug, Parser)]
    struct Only {
        #[command(flatten)]
        model: ModelArgs,
    }

    fn parse(words: &[&str]) -> ModelArgs {
        Only::try_parse_from([&["generate"], words].concat()).expect("sound").model
    }

    #[test]
    fn switches_reach_the_engine_and_the_model() {
        let words = ["--no-prefix-cache", "--no-cascade", "--cache-dtype", "e4m3", "--speculate", "3", "--sequences=8"];
        let args = parse(&[&words[..], &["--batch-invariant=false", "--device", "cpu"]].concat());
        let config = args.engine_config(false);
        assert!(!config.reuse_prefixes && !config.cascade);
        let options = args.load_options();
        assert_eq!((options.cache_dtype, options.batch_invariant), (Some(Dtype::E4m3), Some(false)));
        assert_eq!((options.device, options.step_rows), (Device::Cpu, 32 + SCORED_ROWS));
        let json = serde_json::to_value(&args).expect("JSON");
        assert_eq!((&json["device"], &json["cache_dtype"]), (&"cpu".into(), &"e4m3".into()));
        assert_eq!(parse(&["--batch-invariant"]).batch_invariant, Some(true));
        assert!(Only::try_parse_from(["generate", "--cache-dtype", "int4"]).is_err());
    }
}
