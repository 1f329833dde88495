//! The forward pass: what a step launches, on any device.

use std::sync::Arc;

use attn::{
    Attention, AttentionOptions, CascadeLevel, CascadeLevelKv, DeviceBuffer, Dtype, Dtypes, KernelKind, KvStored, Out,
    Plan, Stream, Variant,
    ops::{self, Append, KvRef, KvTransform, Op, SlotMapping},
    parallel::Communicator,
};
use attn_cache::Step;

use super::{
    StepInput,
    config::LlamaConfig,
    key_rotation::KeyRotation,
    kv_cache::KvCache,
    math::Math,
    step_memory::{Part, StepMemory, StepView},
    weights::LlamaWeights,
};
use crate::Error;

/// A split size that no request reaches.
const WHOLE: u32 = 1 << 30;

/// Sizes of the memory of a forward pass.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ForwardOptions {
    /// New tokens of a step.
    pub step_tokens: usize,
    /// Sequences of a step.
    pub step_sequences: usize,
    /// Tokens that are drawn in a step.
    pub step_rows: usize,
    /// Pages of the KV cache.
    pub pages: usize,
    /// Tokens of a page.
    pub page_size: usize,
    /// The element type of the KV cache; `None` for that of the device.
    pub cache_dtype: Option<Dtype>,
    /// Keys are split at multiples of this many keys and nowhere else: batch-invariant attention. `None` for the
    /// fastest split of each batch.
    pub fixed_split_size: Option<u32>,
}

/// How the layers attend, where it is not plain causal attention by the fastest schedule.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct AttentionForm {
    /// When keys are rotated.
    pub keys: KeyForm,
    /// Steps whose requests share keys run as cascades.
    pub cascades: Option<Cascades>,
    /// Whether one CTA has all keys of a request and head, for comparison with schedules that balance the load.
    pub unbalanced: bool,
}

/// When keys are rotated.
///
/// Keys that are stored as they are have the position of their place in the page table. So texts are endless whose
/// pages leave the table, each by a window of its own (StreamingLLM, arXiv 2309.17453): positions never exceed those of
/// training. They see all keys of the pages that are left.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum KeyForm {
    /// When they are stored.
    #[default]
    Rotated,
    /// By attention kernels, which read them as they are.
    Raw,
    /// In each step, by a pass of its own, for comparison with kernels that rotate.
    Pass,
}

/// Which steps run as cascades, by the levels that they have
/// ([`Step::choose_levels`](attn_cache::Step::choose_levels)).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Cascades {
    /// Levels of a step, at most.
    pub levels: u32,
    /// Bytes of keys and values of a layer that a step has to read less often. Levels cost time of their own, and keys
    /// that are read again at about the same time come from the L2 cache.
    pub least_saved: usize,
}

impl Default for Cascades {
    /// As it was measured on an H200, with models of 135 million and of 8 billion weights
    /// (`book/src/performance/notes/model.md`).
    fn default() -> Self {
        Cascades { levels: 4, least_saved: 128 << 20 }
    }
}

/// Activations of a step.
#[derive(Debug)]
struct Scratch {
    /// The residual. Of a model that is shared out it is the part of a rank until [`Forward::add_up`].
    x: DeviceBuffer,
    /// Where residuals of ranks are added up.
    sum: Option<DeviceBuffer>,
    normed: DeviceBuffer,
    qkv: DeviceBuffer,
    attended: DeviceBuffer,
    gate_up: DeviceBuffer,
    activated: DeviceBuffer,
    /// Rows to draw from.
    last: DeviceBuffer,
    last_normed: DeviceBuffer,
}

/// The arrays of a step in its [`StepMemory`]. Padded entries: token 0, slot -1, position 0, row -1.
#[derive(Clone, Copy, Debug)]
pub struct StepParts {
    /// New tokens.
    pub tokens: Part<i32>,
    /// Their slots in the KV cache.
    pub slots: Part<i64>,
    /// Their positions.
    pub positions: Part<i32>,
    /// Indices of the tokens to draw after.
    pub rows: Part<i32>,
}

impl StepParts {
    /// Words of the arrays of `tokens` tokens and `rows` rows.
    pub fn words(tokens: usize, rows: usize) -> usize {
        let of_tokens = 2 * StepMemory::words::<i32>(tokens) + StepMemory::words::<i64>(tokens);
        of_tokens + StepMemory::words::<i32>(rows)
    }

    /// Puts the arrays of a step, padded to these numbers of tokens and rows.
    pub fn put(memory: &mut StepMemory, input: &StepInput<'_>, tokens: usize, rows: usize) -> Result<Self, Error> {
        let arrays = input.step.arrays();
        Ok(StepParts {
            tokens: memory.put(input.tokens.iter().map(|&token| token as i32), tokens, 0)?,
            slots: memory.put(arrays.slots.iter().copied(), tokens, -1)?,
            positions: memory.put(arrays.positions.iter().copied(), tokens, 0)?,
            rows: memory.put(input.rows.iter().map(|row| row.row as i32), rows, -1)?,
        })
    }
}

/// Weights, KV cache and memory of a model. All of it is allocated once.
#[derive(Debug)]
pub struct Forward {
    config: LlamaConfig,
    weights: Arc<LlamaWeights>,
    cache: KvCache,
    scratch: Scratch,
    attention: Attention,
    form: AttentionForm,
    /// Rotates keys when they are appended; `None` if they are stored as they are.
    rope: Option<KvTransform>,
    /// Rotates stored keys in each step, for [`KeyForm::Pass`].
    rotation: Option<KeyRotation>,
    /// The rank of a model that is shared out.
    communicator: Option<Communicator>,
    /// `[step_rows][vocab]` logits in f32, of the first rank.
    pub logits: DeviceBuffer,
}

impl Forward {
    /// Tokens of the vocabulary.
    pub(super) fn vocab(&self) -> usize {
        self.config.vocab
    }

    /// Allocates the memory of a model with these weights. A variant that the device has no kernel for is an error.
    pub fn new(
        config: &LlamaConfig,
        weights: Arc<LlamaWeights>,
        options: &ForwardOptions,
        form: AttentionForm,
        math: &dyn Math,
        communicator: Option<Communicator>,
    ) -> Result<Self, Error> {
        let engine = math.engine();
        let variant = Variant::parse(&format!("causal + {}", config.rope())).map_err(attn::Error::from)?;
        let dtypes = Dtypes::new(math.dtype(), options.cache_dtype.unwrap_or(math.dtype()));
        let attention_options = AttentionOptions {
            stored: if form.keys == KeyForm::Raw { KvStored::Raw } else { KvStored::Transformed },
            fixed_split_size: if form.unbalanced { Some(WHOLE) } else { options.fixed_split_size },
            // a token has the same bits in a prompt and alone if the same kernel computes both
            kernel: options.fixed_split_size.map(|_| KernelKind::Prefill),
            ..AttentionOptions::default()
        };
        let cache = KvCache::new(config, math, dtypes.kv, options.pages, options.page_size)?;
        let rope = if form.keys == KeyForm::Rotated {
            let transform = KvTransform::new(engine, &variant, config.heads)?;
            transform.prepare(math.dtype(), dtypes.kv)?;
            Some(transform)
        } else {
            ops::prepare(engine, &[Op::Append { from: math.dtype(), to: dtypes.kv }])?;
            None
        };
        let has_pass = form.keys == KeyForm::Pass;
        let rotation = has_pass.then(|| KeyRotation::new(config, cache.shape(), math)).transpose()?;
        let [tokens, rows] = [options.step_tokens, options.step_rows].map(|rows| math.padded_rows(rows));
        let residual = |rows| engine.alloc(Dtype::F32, rows * config.width);
        let scratch = Scratch {
            x: residual(tokens)?,
            sum: communicator.is_some().then(|| residual(tokens)).transpose()?,
            normed: math.buffer(tokens * config.width)?,
            qkv: math.buffer(tokens * config.qkv_width())?,
            attended: math.buffer(tokens * config.q_width())?,
            gate_up: math.buffer(tokens * 2 * config.ffn)?,
            activated: math.buffer(tokens * config.ffn)?,
            last: residual(rows)?,
            last_normed: math.buffer(rows * config.width)?,
        };
        Ok(Forward {
            config: *config,
            weights,
            cache,
            scratch,
            attention: engine.attention_with(&variant, config.heads, dtypes, attention_options)?,
            form,
            rope,
            rotation,
            communicator,
            logits: engine.alloc(Dtype::F32, rows * config.vocab)?,
        })
    }

    /// The attention of all layers; one plan of it serves them.
    pub fn attention(&self) -> &Attention {
        &self.attention
    }

    /// How the layers attend.
    pub fn form(&self) -> AttentionForm {
        self.form
    }

    /// Bytes of keys and values of a layer that levels of a step save, if each request would read its own otherwise.
    pub(super) fn saved_bytes(&self, qo_indptr: &[i32], levels: &[CascadeLevel<'_>]) -> usize {
        let [_, _, kv_heads, head_dim] = self.cache.shape();
        let shared = levels.split_last().map_or(&[][..], |(_, shared)| shared);
        let saved = shared.iter().map(|level| match &level.kv {
            CascadeLevelKv::Ragged(_) => 0,
            CascadeLevelKv::Paged(table) => (table.indptr.windows(2).zip(level.qo_indptr.windows(2)))
                .map(|(pages, queries)| {
                    let [begin, end] = [queries[0], queries[1]].map(|to| qo_indptr.partition_point(|&at| at < to));
                    let keys = (pages[1] - pages[0]) as usize * table.page_size as usize;
                    keys * (end - begin).saturating_sub(1)
                })
                .sum(),
        });
        saved.sum::<usize>() * 2 * kv_heads * head_dim * self.cache.dtype().size()
    }

    /// Copies to the device what the launches of a step need of its page tables.
    pub fn upload_tables(&mut self, stream: &Stream, step: &Step) -> Result<(), Error> {
        match &mut self.rotation {
            Some(rotation) => rotation.upload(stream, &step.arrays()),
            None => Ok(()),
        }
    }

    /// The KV cache.
    pub fn cache_mut(&mut self) -> &mut KvCache {
        &mut self.cache
    }

    /// The weights.
    pub fn weights(&self) -> &LlamaWeights {
        &self.weights
    }

    /// Adds up the residuals of the ranks that share the model, of `tokens` tokens.
    ///
    /// # Errors
    ///
    /// A group that is broken; failures of the device.
    pub(super) fn add_up(&mut self, stream: &Stream, tokens: usize) -> Result<(), Error> {
        let Scratch { x, sum, .. } = &mut self.scratch;
        add_up(self.communicator.as_ref(), stream, x, sum, tokens * self.config.width)
    }

    /// Waits for a step of ranks, which never ends where one of them fails. Else it does nothing.
    ///
    /// # Errors
    ///
    /// A rank that fails, or does not come in time.
    pub(super) fn wait(&self, stream: &Stream) -> Result<(), Error> {
        self.communicator.as_ref().map_or(Ok(()), |rank| Ok(rank.wait(stream)?))
    }

    /// Tells other ranks that this one fails.
    pub(super) fn abort(&self, why: &Error) {
        if let Some(rank) = &self.communicator {
            rank.abort(why.to_string());
        }
    }

    /// Launches a step: the tokens of `parts`, which lie in `memory`, go in, and logits of its rows come out. `plan`
    /// is a plan of [`Forward::attention`] whose queries are those tokens. It allocates nothing and reads no
    /// value on the host, so a CUDA graph can capture it.
    ///
    /// # Errors
    ///
    /// More tokens or rows than there is memory for; a plan of other sizes; failures of the device.
    pub fn run(
        &mut self,
        math: &mut dyn Math,
        plan: &Plan,
        memory: StepView<'_>,
        parts: StepParts,
    ) -> Result<(), Error> {
        let Forward { config, weights, cache, scratch: s, rope, rotation, communicator, logits, .. } = self;

        let (token_ids, slots) = (memory.array(parts.tokens), memory.array(parts.slots));
        let (positions, row_indices) = (memory.array(parts.positions), memory.array(parts.rows));
        let (tokens, rows) = (token_ids.len(), row_indices.len());
        let (communicator, elements) = (communicator.as_ref(), tokens * config.width);
        // the first rank alone adds to the residual, so that it is counted once
        let first = communicator.is_none_or(|of| of.rank() == 0);
        let (eps, heads) = (config.norm_eps, config.heads);
        let [q_heads, kv_heads, head_dim] = [heads.qo, heads.kv, heads.head_dim].map(|n| n as usize);
        math.embed(&weights.embedding, token_ids, &mut s.x, tokens)?;
        for (index, layer) in weights.layers.iter().enumerate() {
            math.rms_norm(&s.x, &layer.attn_norm, eps, &mut s.normed, tokens)?;
            math.linear(&layer.qkv, &s.normed, &mut s.qkv, tokens, false)?;
            let qkv = s.qkv.tensor(&[tokens, q_heads + 2 * kv_heads, head_dim])?;
            let part = |first, heads| qkv.narrow(1, first..first + heads).map_err(attn::Error::from);
            let new = KvRef::new(part(q_heads, kv_heads)?, part(q_heads + kv_heads, kv_heads)?);
            let append = Append::at(SlotMapping::Slots { slots, positions: Some(positions) });
            ops::append_paged(math.stream(), &new, &mut cache.layer_mut(index)?, &append, rope.as_ref())?;
            let out = Out::new(s.attended.tensor_mut(&[tokens, q_heads, head_dim])?);
            let rotated = match rotation {
                Some(rotation) => Some(rotation.run(math.stream(), cache.keys(index))?),
                None => None,
            };
            let kv = cache.layer(index, rotated)?;
            plan.run(math.stream(), part(0, q_heads)?, kv, out)?;
            math.linear(&layer.output, &s.attended, &mut s.x, tokens, first)?;
            add_up(communicator, math.stream(), &mut s.x, &mut s.sum, elements)?;
            math.rms_norm(&s.x, &layer.ffn_norm, eps, &mut s.normed, tokens)?;
            math.linear(&layer.gate_up, &s.normed, &mut s.gate_up, tokens, false)?;
            math.silu_mul(&s.gate_up, &mut s.activated, config.ffn, tokens)?;
            math.linear(&layer.down, &s.activated, &mut s.x, tokens, first)?;
            add_up(communicator, math.stream(), &mut s.x, &mut s.sum, elements)?;
        }
        if !first {
            return Ok(());
        }
        math.gather_rows(&s.x, row_indices, &mut s.last, config.width, rows)?;
        math.rms_norm(&s.last, &weights.norm, eps, &mut s.last_normed, rows)?;
        math.linear(weights.head(), &s.last_normed, logits, rows, false)
    }
}

/// Adds up the residuals of ranks, `elements` each, if there are several. It swaps the two buffers, so that a step with
/// an even number of sums ends with those that it began with, as graphs need.
fn add_up(
    communicator: Option<&Communicator>,
    stream: &Stream,
    x: &mut DeviceBuffer,
    sum: &mut Option<DeviceBuffer>,
    elements: usize,
) -> Result<(), Error> {
    if let (Some(rank), Some(sum)) = (communicator, sum) {
        rank.all_reduce(stream, x.tensor(&[elements])?, sum.tensor_mut(&[elements])?)?;
        std::mem::swap(x, sum);
    }
    Ok(())
}
