//! Decode context parallelism.

use attn_core::lang::{Hook, Normalizer};
use attn_core::parallel::coordinates::{KEYS_OF_SHARDS, POSITIONS_OF_SHARDS};
use attn_core::parallel::{Collective, ParallelError};

use super::Communicator;
use crate::ops::{StateRef, merge_states};
use crate::{Attention, DeviceBuffer, Dtype, Engine, Error, Kv, Out, Plan, RunOptions, Stream, TensorRef};

/// Decode whose keys are on several ranks (decode context parallelism, DCP of vLLM and SGLang; Helix, arXiv
/// 2507.07120). Each rank computes all queries over its own keys; the states (o, lse) of all ranks are exchanged and
/// merged. Outputs that are not divided by the sum of weights (`sigmoid`) are added up.
///
/// The plan of a rank is over its own keys ([`InterleavedShard`](super::InterleavedShard)), possibly none. A mask or a
/// score of positions sees those of the whole sequence under `remap(interleaved_positions(..), ..)`, and is refused
/// without a `remap`; one query a request, which sees all keys, needs no mask. Sinks are counted once. The order of
/// merging is that of ranks, so that all ranks have the same bits, in every run.
///
/// ```
/// use std::time::Duration;
/// use attn::parallel::{Communicator, DecodeContextParallel};
/// use attn::{Out, prelude::*};
///
/// let rank = |communicator: Communicator| -> Result<Vec<f32>, attn::Error> {
///     let engine = Engine::cpu();
///     let heads = Heads { qo: 2, kv: 1, head_dim: 8 };
///     let attention = engine.attention(&Variant::parse("full")?, heads, Dtypes::f32())?;
///     // one query over 8 keys, of which each rank has 4; values of a rank are its number
///     let plan = attention.plan(&Batch::ragged(&[0, 1], &[0, 4]), &mut engine.workspace())?;
///     let mut parallel = DecodeContextParallel::new(&engine, &attention, &communicator, 1, false)?;
///
///     let (stream, q) = (engine.stream()?, engine.upload(&[1f32; 16])?);
///     let k = engine.upload(&[0f32; 32])?;
///     let v = engine.upload(&[communicator.rank() as f32; 32])?;
///     let kv = Kv::ragged(k.tensor(&[4, 1, 8])?, v.tensor(&[4, 1, 8])?);
///     let mut o = engine.alloc(Dtype::F32, 16)?;
///     let out = Out::new(o.tensor_mut(&[1, 2, 8])?);
///     parallel.run(&communicator, &plan, &stream, q.tensor(&[1, 2, 8])?, kv, out, None)?;
///     communicator.wait(&stream)?;
///     engine.download(&o)
/// };
/// let ranks = Communicator::threads(2, Duration::from_secs(10));
/// let threads: Vec<_> = ranks.into_iter().map(|of| std::thread::spawn(move || rank(of))).collect();
/// for thread in threads {
///     assert_eq!(thread.join().unwrap()?, [0.5; 16]);
/// }
/// # Ok::<(), attn::Error>(())
/// ```
#[derive(Debug)]
pub struct DecodeContextParallel {
    /// States of this rank, and of all; o is (heads, tokens, dim), so that heads of a rank are one part.
    own: States,
    all: States,
    tokens: usize,
    heads: usize,
    dim: usize,
    scatter_heads: bool,
    /// Whether outputs are divided by the sum of weights; else they are added up.
    divides: bool,
}

#[derive(Debug)]
struct States {
    o: DeviceBuffer,
    lse: DeviceBuffer,
}

impl States {
    fn new(engine: &Engine, dtype: Dtype, rows: usize, dim: usize) -> Result<Self, Error> {
        Ok(States { o: engine.alloc(dtype, rows * dim)?, lse: engine.alloc(Dtype::F32, rows)? })
    }
}

impl DecodeContextParallel {
    /// Memory for states of up to `tokens` query tokens of an attention. `scatter_heads`: a rank receives the outputs
    /// of its own heads alone, `rank * heads / ranks` and so on (all-to-all), as the output projection of tensor
    /// parallelism needs them; else those of all heads (all-gather).
    ///
    /// # Errors
    ///
    /// Heads that do not divide among the ranks; a variant with `output_transform`, or that reads a coordinate of the
    /// keys of one rank; out of memory.
    pub fn new(
        engine: &Engine,
        attention: &Attention,
        communicator: &Communicator,
        tokens: usize,
        scatter_heads: bool,
    ) -> Result<Self, Error> {
        let (variant, ranks) = (attention.variant(), communicator.ranks());
        if variant.has(Hook::OutputTransform) {
            let what = "merging outputs that `output_transform` changes";
            return Err(ParallelError::Unsupported { what, way: "apply it to the merged outputs" }.into());
        }
        if ranks > 1 {
            [POSITIONS_OF_SHARDS, KEYS_OF_SHARDS].iter().try_for_each(|of| of.check(variant))?;
        }
        let (dtype, dim) = attention.output();
        if !matches!(dtype, Dtype::F16 | Dtype::Bf16 | Dtype::F32) {
            let what = "merging outputs of 8 bits";
            return Err(ParallelError::Unsupported { what, way: "take outputs of f16, bf16 or f32" }.into());
        }
        let heads = attention.heads().qo as usize;
        if scatter_heads && !heads.is_multiple_of(ranks) {
            return Err(ParallelError::Heads { heads, ranks }.into());
        }
        let rows = tokens * heads;
        let divides = variant.normalizer() != (Normalizer::Plain { divide: false });
        let of_all = if scatter_heads || !divides { rows } else { rows * ranks };
        let (own, all) = (States::new(engine, dtype, rows, dim)?, States::new(engine, dtype, of_all, dim)?);
        Ok(DecodeContextParallel { own, all, tokens, heads, dim, scatter_heads, divides })
    }

    /// Runs the plan of this rank, exchanges states, and merges them into `out`: (tokens, heads, value dim), with
    /// `scatter_heads` of the heads of this rank. `layer` is as in [`RunOptions::layer`]. On CUDA it launches and
    /// returns, and a graph can capture it after a first run.
    ///
    /// # Errors
    ///
    /// More tokens than there is memory for; the errors of [`Plan::run`], [`Communicator::all_gather`] and
    /// [`merge_states`]. Where this rank fails before the exchange, it breaks the group, since the others wait.
    #[allow(clippy::too_many_arguments)] // those of a run, with its ranks
    pub fn run(
        &mut self,
        communicator: &Communicator,
        plan: &Plan,
        stream: &Stream,
        q: TensorRef<'_>,
        kv: Kv<'_>,
        out: Out<'_>,
        layer: Option<&Attention>,
    ) -> Result<(), Error> {
        let tokens = q.shape()[0];
        self.run_own(communicator, plan, stream, q, kv, layer).inspect_err(|error| {
            communicator.abort(error.to_string());
        })?;
        if !self.divides {
            return self.add_up(communicator, stream, tokens, out);
        }
        let (ranks, heads, dim) = (communicator.ranks(), self.heads, self.dim);
        let (of_rank, collective) = match self.scatter_heads {
            true => (heads / ranks, Collective::AllToAll),
            false => (heads, Collective::AllGather),
        };
        let parts = if self.scatter_heads { vec![ranks, of_rank, tokens] } else { vec![heads, tokens] };
        let (of_all, with_dim) = ([ranks, of_rank, tokens], |shape: &[usize]| [shape, &[dim]].concat());
        let o = (self.own.o.tensor(&with_dim(&parts))?, self.all.o.tensor_mut(&with_dim(&of_all))?);
        let lse = (self.own.lse.tensor(&parts)?, self.all.lse.tensor_mut(&of_all)?);
        communicator.run(stream, collective, &mut [o, lse])?;
        let o = self.all.o.tensor(&with_dim(&of_all))?.permuted(&[2, 0, 1, 3])?;
        let lse = self.all.lse.tensor(&of_all)?.permuted(&[2, 0, 1])?;
        merge_states(stream, &StateRef { o, lse }, out)
    }

    /// Adds up outputs that are not divided by the sum of weights.
    fn add_up(
        &mut self,
        communicator: &Communicator,
        stream: &Stream,
        tokens: usize,
        out: Out<'_>,
    ) -> Result<(), Error> {
        if out.lse.is_some() {
            let what = "log-sum-exps of outputs that are not divided by the sum of weights";
            let error = ParallelError::Unsupported { what, way: "leave `lse` out" };
            communicator.abort(error.to_string());
            return Err(error.into());
        }
        let (ranks, heads, shape) = (communicator.ranks(), self.heads, [1, self.heads, tokens, self.dim]);
        communicator.all_reduce(stream, self.own.o.tensor(&shape)?, self.all.o.tensor_mut(&shape)?)?;
        let part = heads / ranks * communicator.rank();
        let own = if self.scatter_heads { part..part + heads / ranks } else { 0..heads };
        // the state of one rank, whose log-sum-exp of 0 nobody writes
        let o = self.all.o.tensor(&shape)?.narrow(1, own.clone())?.permuted(&[2, 0, 1, 3])?;
        let lse = self.all.lse.tensor(&shape[..3])?.narrow(1, own)?.permuted(&[2, 0, 1])?;
        merge_states(stream, &StateRef { o, lse }, out)
    }

    /// Computes the states of all rows over the keys of this rank.
    fn run_own(
        &mut self,
        communicator: &Communicator,
        plan: &Plan,
        stream: &Stream,
        q: TensorRef<'_>,
        kv: Kv<'_>,
        layer: Option<&Attention>,
    ) -> Result<(), Error> {
        communicator.check(stream)?;
        let (tokens, most) = (q.shape()[0], self.tokens);
        if tokens > most {
            return Err(ParallelError::Tokens { tokens, most }.into());
        }
        let o = self.own.o.tensor_mut(&[self.heads, tokens, self.dim])?.permuted(&[1, 0, 2])?;
        let lse = self.own.lse.tensor_mut(&[self.heads, tokens])?.permuted(&[1, 0])?;
        // a sink is of one rank
        let options = RunOptions { layer, partial: communicator.rank() != 0 };
        plan.run_with(stream, q, kv, Out::with_lse(o, lse), options)
    }
}
