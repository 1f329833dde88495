//! A model on several devices of one machine (tensor parallelism): each has its share of heads, of their KV cache, and
//! of the feed-forward network, and all run the same steps.

use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use attn::{Engine, parallel::Communicator};
use attn_cache::Pages;
use rayon::{ThreadPool, ThreadPoolBuilder};

use super::{
    Model, ModelLimits, StepInput,
    config::LlamaConfig,
    fetch::model_file,
    gguf::Gguf,
    llama::{Llama, LoadOptions},
    weights::Checkpoint,
};
use crate::{Error, sampling::Sampled, tokenizer::Tokenizer};

/// How long a rank waits for the others in a step.
const LIMIT: Duration = Duration::from_secs(60);

/// The ranks of a model. The first one draws tokens.
#[derive(Debug)]
pub struct TensorParallel {
    ranks: Vec<Mutex<Llama>>,
    /// One thread for each rank. Collectives block, so that all of them run at a time.
    threads: ThreadPool,
    limits: ModelLimits,
    pages: Pages,
}

impl TensorParallel {
    /// Loads a model on the first `count` CUDA devices, and its tokenizer.
    ///
    /// # Errors
    ///
    /// Those of [`load`](super::llama::load) and of [`TensorParallel::new`]; fewer devices.
    pub fn load(options: &LoadOptions, count: usize) -> Result<(Self, Tokenizer), Error> {
        let file = Gguf::open(&model_file(options.file.as_deref())?)?;
        let tokenizer = Tokenizer::load(&file)?;
        let engines = (0..count).map(|device| Engine::cuda(device as u32)).collect::<Result<Vec<_>, _>>()?;
        let model = Self::new(&engines, &file.config()?, &file, tokenizer.eos(), options)?;
        Ok((model, tokenizer))
    }

    /// A model with the weights of a checkpoint, of which each engine has its share.
    ///
    /// # Errors
    ///
    /// No NCCL, or no communicator of these devices; heads that do not divide among them; batch invariance on more than
    /// two GPUs; what [`Llama::new`] refuses.
    pub fn new(
        engines: &[Engine],
        config: &LlamaConfig,
        checkpoint: &dyn Checkpoint,
        eos: u32,
        options: &LoadOptions,
    ) -> Result<Self, Error> {
        let count = engines.len();
        if count == 0 {
            return Err(Error::Shares { ffn: config.ffn, gpus: 0 });
        }
        let on_gpus = engines.iter().all(|engine| !engine.is_cpu());
        if on_gpus && count > 2 && options.batch_invariant == Some(true) {
            return Err(Error::Invariance { gpus: count });
        }
        let name = |rank| format!("rank {rank}");
        let threads = ThreadPoolBuilder::new().num_threads(count).thread_name(name).build();
        let threads = threads.map_err(|error| Error::Model(error.to_string()))?;
        let ranks = communicators(&threads, engines)?;
        let load = |(engine, rank): (&Engine, Communicator)| {
            Llama::on(engine.clone(), config, checkpoint, eos, options, Some(rank)).map(Mutex::new)
        };
        let ranks = engines.iter().zip(ranks).map(load).collect::<Result<Vec<_>, _>>()?;
        let (limits, pages) = {
            let first = lock(&ranks[0]);
            (first.limits(), first.pages().clone())
        };
        let of = TensorParallel { ranks, threads, limits, pages };
        // a capture may follow once the ranks are connected
        of.on_ranks(|llama| llama.connect())?;
        Ok(of)
    }

    /// The logits of the last step, `[rows][vocab]`.
    ///
    /// # Errors
    ///
    /// Failures of the device.
    pub fn logits(&self, rows: usize) -> Result<Vec<f32>, Error> {
        lock(&self.ranks[0]).logits(rows)
    }

    /// Where it runs, in words.
    #[must_use]
    pub fn device(&self) -> String {
        format!("{} devices, {}", self.ranks.len(), lock(&self.ranks[0]).engine())
    }

    /// Runs each rank in its thread. The result is that of the first rank, or the first error: of a rank that failed
    /// itself, else of one that the others learned it from.
    fn on_ranks<T: Send>(&self, run: impl Fn(&mut Llama) -> Result<T, Error> + Sync) -> Result<T, Error> {
        let mut results = self.threads.broadcast(|thread| {
            let mut llama = lock(&self.ranks[thread.index()]);
            run(&mut llama).inspect_err(|error| llama.abort(error))
        });
        let own = results.iter().position(|result| result.as_ref().is_err_and(|error| !is_of_others(error)));
        let any = || results.iter().position(Result::is_err);
        let chosen = own.or_else(any).unwrap_or(0);
        results.swap_remove(chosen)
    }
}

impl Model for TensorParallel {
    fn limits(&self) -> ModelLimits {
        self.limits
    }

    fn pages(&self) -> &Pages {
        &self.pages
    }

    fn run(&mut self, input: &StepInput<'_>) -> Result<Vec<Sampled>, Error> {
        // a step that no rank begins leaves the group whole
        self.limits.check(input)?;
        self.on_ranks(|llama| llama.run(input))
    }
}

fn lock(rank: &Mutex<Llama>) -> MutexGuard<'_, Llama> {
    // a rank that panicked has left its group, so its next step is an error
    rank.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Whether a rank fails since another one has.
fn is_of_others(error: &Error) -> bool {
    matches!(error, Error::Attn(attn::Error::Parallel(_)))
}

/// The ranks of a group of these engines.
fn communicators(threads: &ThreadPool, engines: &[Engine]) -> Result<Vec<Communicator>, Error> {
    if engines.iter().all(Engine::is_cpu) {
        return Ok(Communicator::threads(engines.len(), LIMIT));
    }
    let id = Communicator::unique_id()?;
    let joined = threads.broadcast(|thread| {
        let rank = thread.index();
        Communicator::join(&engines[rank], id, rank, engines.len(), LIMIT)
    });
    Ok(joined.into_iter().collect::<Result<_, attn::Error>>()?)
}
