//! A Llama with its KV cache, as the engine runs it.

use std::path::PathBuf;

use attn::{Dtype, Engine, parallel::Communicator};
use attn_cache::Pages;

use super::{
    Model, ModelLimits, StepInput,
    config::LlamaConfig,
    fetch::model_file,
    forward::{AttentionForm, Cascades, Forward, ForwardOptions, KeyForm},
    gguf::Gguf,
    math::{CpuMath, CudaMath, CudaMathOptions, Math},
    runner::ModelRunner,
    sampler::{MAX_TOP_LOGPROBS, Sampler},
    shard::Shard,
    weights::{Checkpoint, LlamaWeights},
};
use crate::{Error, sampling::Sampled, tokenizer::Tokenizer};

/// Where a model runs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, clap::ValueEnum, serde::Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Device {
    /// The first CUDA device if there is one, else the CPU.
    #[default]
    Auto,
    /// The CPU.
    Cpu,
    /// The first CUDA device.
    Cuda,
}

/// How a model is loaded.
#[derive(Clone, Debug)]
pub struct LoadOptions {
    /// The GGUF file; `None` for SmolLM2-135M-Instruct, which is fetched once.
    pub file: Option<PathBuf>,
    /// Where it runs.
    pub device: Device,
    /// A text has the same bits alone and in any batch, in one piece and in chunks, with a warm prefix cache and with a
    /// cold one. On CUDA it takes slower products. By default on the CPU alone.
    pub batch_invariant: Option<bool>,
    /// New tokens of a step.
    pub step_tokens: usize,
    /// Sequences of a step.
    pub step_sequences: usize,
    /// Tokens that are drawn in a step; at least `step_sequences`.
    pub step_rows: usize,
    /// Tokens of the KV cache, of all sequences together.
    pub cache_tokens: usize,
    /// Tokens of a page.
    pub page_size: usize,
    /// The element type of the KV cache; `None` for that of the device.
    pub cache_dtype: Option<Dtype>,
    /// Levels of cascades that steps may have, for sequences that share pages; 0 for none. Steps that
    /// share enough keys then run as cascades ([`Cascades`]), by plans of their own. Not in batch-invariant mode.
    pub levels: u32,
    /// Takes the memory of the KV cache at once, not when it is first used: a server has it then, or does not start.
    pub resident: bool,
    /// Runs endless texts too: keys are rotated when they are read, by their places in the cache. It takes a little
    /// longer.
    pub endless: bool,
    /// The mathematics on CUDA; batch invariance fixes the rows of its products.
    pub cuda: CudaMathOptions,
    /// Whether tokens are drawn; else the logits are there to be read.
    pub draws: bool,
}

impl Default for LoadOptions {
    fn default() -> Self {
        LoadOptions {
            file: None,
            device: Device::Auto,
            batch_invariant: None,
            step_tokens: 512,
            step_sequences: 64,
            step_rows: 128,
            cache_tokens: 16_384,
            page_size: 16,
            cache_dtype: None,
            levels: 0,
            resident: false,
            endless: false,
            cuda: CudaMathOptions::default(),
            draws: true,
        }
    }
}

/// A model with its pages.
#[derive(Debug)]
pub struct Llama {
    config: LlamaConfig,
    limits: ModelLimits,
    pages: Pages,
    engine: Engine,
    runner: ModelRunner,
}

/// Loads a model and its tokenizer.
///
/// # Errors
///
/// A file that cannot be fetched or read, that is no Llama, or whose tokenizer is another; a device that is missing or
/// has too little memory.
pub fn load(options: &LoadOptions) -> Result<(Llama, Tokenizer), Error> {
    let file = Gguf::open(&model_file(options.file.as_deref())?)?;
    let tokenizer = Tokenizer::load(&file)?;
    let model = Llama::new(&file.config()?, &file, tokenizer.eos(), options)?;
    Ok((model, tokenizer))
}

/// The mathematics of an engine's device.
pub fn math(engine: &Engine, cuda: CudaMathOptions) -> Result<Box<dyn Math>, Error> {
    Ok(match engine.is_cpu() {
        true => Box::new(CpuMath::new()?),
        false => Box::new(CudaMath::new(engine, cuda)?),
    })
}

impl Llama {
    /// A model with the weights of a checkpoint.
    pub fn new(
        config: &LlamaConfig,
        checkpoint: &dyn Checkpoint,
        eos: u32,
        options: &LoadOptions,
    ) -> Result<Self, Error> {
        let engine = match options.device {
            Device::Auto => Engine::auto()?,
            Device::Cpu => Engine::cpu(),
            Device::Cuda => Engine::cuda(0)?,
        };
        Self::on(engine, config, checkpoint, eos, options, None)
    }

    /// A model on a device with the weights of a checkpoint, or the share of a rank in them. The first rank
    /// makes logits and draws.
    ///
    /// # Errors
    ///
    /// Those of [`Llama::new`]; heads, or elements of the feed-forward network, that do not divide among the ranks.
    pub fn on(
        engine: Engine,
        whole: &LlamaConfig,
        checkpoint: &dyn Checkpoint,
        eos: u32,
        options: &LoadOptions,
        communicator: Option<Communicator>,
    ) -> Result<Self, Error> {
        let shard = communicator.as_ref().map(|of| Shard::new(checkpoint, whole, of)).transpose()?;
        let (config, checkpoint): (_, &dyn Checkpoint) = match &shard {
            Some(shard) => (&shard.config, shard),
            None => (whole, checkpoint),
        };
        let batch_invariant = options.batch_invariant.unwrap_or(engine.is_cpu());
        let math = math(&engine, CudaMathOptions { fixed_rows: batch_invariant, ..options.cuda })?;
        // a split has enough keys to pay for its merge, and a request enough splits for all threads
        let split = if engine.is_cpu() { 256 } else { 1024 };
        let step_rows = options.step_rows.max(options.step_sequences);
        let sizes = ForwardOptions {
            step_tokens: options.step_tokens,
            step_sequences: options.step_sequences,
            step_rows,
            pages: options.cache_tokens.div_ceil(options.page_size.max(1)),
            page_size: options.page_size,
            cache_dtype: options.cache_dtype,
            fixed_split_size: batch_invariant.then_some(split),
        };
        let pages = Pages::new(sizes.pages, sizes.page_size)?;
        let weights = LlamaWeights::load(config, checkpoint, &*math)?;
        let cascades = Cascades { levels: options.levels, ..Cascades::default() };
        let form = AttentionForm {
            keys: if options.endless { KeyForm::Raw } else { KeyForm::Rotated },
            cascades: (!batch_invariant && options.levels > 1).then_some(cascades),
            ..AttentionForm::default()
        };
        let draws = options.draws && communicator.as_ref().is_none_or(|of| of.rank() == 0);
        let mut forward = Forward::new(config, weights.into(), &sizes, form, &*math, communicator)?;
        if options.resident {
            forward.cache_mut().touch(math.stream())?;
        }
        let sampler = || Sampler::new(&engine, math.padded_rows(step_rows), config.vocab);
        let sampler = draws.then(sampler).transpose()?;
        let limits = ModelLimits {
            vocab: config.vocab,
            context: config.context.min(options.cache_tokens),
            step_tokens: options.step_tokens,
            step_sequences: options.step_sequences,
            step_rows,
            top_logprobs: MAX_TOP_LOGPROBS,
            endless: options.endless,
            eos,
        };
        let runner = ModelRunner::new(math, forward, sampler, &sizes, limits.context)?;
        Ok(Llama { config: *config, limits, pages, engine, runner })
    }

    /// The shape of the model.
    pub fn config(&self) -> &LlamaConfig {
        &self.config
    }

    /// Where it runs.
    pub fn engine(&self) -> &Engine {
        &self.engine
    }

    /// Connects the ranks of a model that is shared out.
    pub(super) fn connect(&mut self) -> Result<(), Error> {
        self.runner.connect()
    }

    /// Tells the other ranks that this one fails.
    pub(super) fn abort(&self, why: &Error) {
        self.runner.forward().abort(why);
    }

    /// The runner, with the times and the logits of the last step.
    pub fn runner(&self) -> &ModelRunner {
        &self.runner
    }

    /// The logits of the last step, `[rows][vocab]`.
    pub fn logits(&self, rows: usize) -> Result<Vec<f32>, Error> {
        let mut logits = self.engine.download::<f32>(&self.runner.forward().logits)?;
        logits.truncate(rows * self.config.vocab);
        Ok(logits)
    }
}

impl Model for Llama {
    fn limits(&self) -> ModelLimits {
        self.limits
    }

    fn pages(&self) -> &Pages {
        &self.pages
    }

    fn run(&mut self, input: &StepInput<'_>) -> Result<Vec<Sampled>, Error> {
        self.limits.check(input)?;
        self.runner.run(input)
    }
}
