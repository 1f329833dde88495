//! One side of a comparison: a model with its own cache, and its sequences.

use std::time::{Duration, Instant};

use attn::{
    Dtype,
    ops::{self, Append, DeviceArray, KvRef, SlotMapping},
};
use attn_cache::{Pages, ReadCost, Sequence, Step, StepCapacity};
use generate::{
    Error,
    model::{
        Endless, SampleRow, StepInput,
        forward::{AttentionForm, Forward, ForwardOptions},
        math::Math,
        random_weights::normal,
        runner::ModelRunner,
    },
    sampling::SamplingParams,
};

use super::{PAGE_SIZE, TableModel};

/// Sizes and form of a side.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct SideOptions {
    pub(super) form: AttentionForm,
    pub(super) cache_dtype: Option<Dtype>,
    pub(super) sequences: usize,
    /// New tokens of a step.
    pub(super) step_tokens: usize,
    /// Tokens of a sequence in a step.
    pub(super) context: usize,
    pub(super) pages: usize,
    /// The keys that endless texts keep.
    pub(super) endless: Option<Endless>,
}

/// A model that runs steps.
#[derive(Debug)]
pub(super) struct Side {
    runner: ModelRunner,
    options: SideOptions,
    vocab: usize,
    pub(super) pages: Pages,
    step: Step,
    pub(super) sequences: Vec<Sequence>,
}

impl Side {
    /// A side without sequences, whose cache is full of made-up keys and values.
    pub(super) fn new(model: &TableModel, options: SideOptions) -> Result<Self, Error> {
        let SideOptions { form, cache_dtype, sequences, step_tokens, context, pages: count, .. } = options;
        let math = model.math()?;
        let sizes = ForwardOptions {
            step_tokens,
            step_sequences: sequences,
            step_rows: sequences,
            pages: count,
            page_size: PAGE_SIZE,
            cache_dtype,
            fixed_split_size: None,
        };
        let mut forward = Forward::new(&model.config, model.weights.clone(), &sizes, form, &*math, None)?;
        fill(&mut forward, model.config.layers, &*math)?;
        let pages = Pages::new(count, PAGE_SIZE)?;
        let capacity = StepCapacity {
            sequences,
            tokens: step_tokens,
            pages: sequences * context.div_ceil(PAGE_SIZE),
            pages_per_sequence: context.div_ceil(PAGE_SIZE),
            levels: form.cascades.map_or(1, |cascades| cascades.levels as usize),
        };
        let step = Step::new(&pages, capacity)?;
        let step = if form.cascades.is_some() { step.group_prefixes() } else { step };
        let runner = ModelRunner::new(math, forward, None, &sizes, context)?;
        Ok(Side { runner, options, vocab: model.config.vocab, pages, step, sequences: Vec::new() })
    }

    /// A side with a sequence of each length, for `steps` steps of decoding. The options say how it attends.
    pub(super) fn decoding(
        model: &TableModel,
        lengths: &[usize],
        steps: usize,
        options: SideOptions,
    ) -> Result<Self, Error> {
        let longest = lengths.iter().max().copied().unwrap_or(0);
        let pages = lengths.iter().map(|length| (length + steps) / PAGE_SIZE + 2).sum();
        let (sequences, step_tokens) = (lengths.len(), lengths.len());
        let mut side =
            Side::new(model, SideOptions { sequences, step_tokens, context: longest + steps, pages, ..options })?;
        lengths.iter().try_for_each(|&length| side.add(length))?;
        Ok(side)
    }

    /// Adds a sequence whose tokens are in the cache, as far as it keeps them.
    pub(super) fn add(&mut self, tokens: usize) -> Result<(), Error> {
        let mut sequence = Sequence::new(&self.pages);
        sequence.append(tokens)?;
        sequence.commit();
        forget(self.options.endless, &mut sequence);
        self.sequences.push(sequence);
        Ok(())
    }

    /// Runs a step of one new token of each sequence, and returns what it took.
    pub(super) fn decode(&mut self) -> Result<Duration, Error> {
        let begin = Instant::now();
        for sequence in &mut self.sequences {
            sequence.append(1)?;
        }
        self.run()?;
        Ok(begin.elapsed())
    }

    /// Runs a step of the new tokens of all sequences, with logits of the last of each.
    pub(super) fn run(&mut self) -> Result<(), Error> {
        self.sequences.iter_mut().for_each(|sequence| forget(self.options.endless, sequence));
        self.step.build(&self.sequences[..])?;
        if self.options.form.cascades.is_some() {
            self.step.choose_levels(&ReadCost::default());
        }
        let (params, mut tokens, mut rows) = (SamplingParams::default(), Vec::new(), Vec::new());
        for &index in self.step.order() {
            let sequence = &self.sequences[index];
            let new = sequence.len() - sequence.new_tokens()..sequence.len();
            tokens.extend(new.map(|position| ((31 * position + 7919 * index + 5) % self.vocab) as u32));
            let (row, position) = (tokens.len() - 1, sequence.len());
            rows.push(SampleRow { row, position, params: &params, prompt: &[], generated: &[] });
        }
        self.runner.run(&StepInput { step: &self.step, tokens: &tokens, rows: &rows, endless: &[] })?;
        self.step.commit(&mut self.sequences[..]);
        Ok(())
    }

    /// The logits of the last step, sequence by sequence.
    pub(super) fn logits(&self) -> Result<Vec<f32>, Error> {
        let logits = self.runner.math().engine().download::<f32>(&self.runner.forward().logits)?;
        let order = self.step.order();
        let mut out = vec![0.0; order.len() * self.vocab];
        for (row, &sequence) in logits.chunks(self.vocab).zip(order) {
            out[sequence * self.vocab..][..self.vocab].copy_from_slice(row);
        }
        Ok(out)
    }

    /// Levels of the last step's cascade; 1 where sharing did not pay, 0 where the side has no cascades.
    pub(super) fn levels(&self) -> usize {
        self.step.levels().len()
    }
}

/// Releases the pages of an endless text that its next tokens do not see, and takes them out of its page table.
fn forget(endless: Option<Endless>, sequence: &mut Sequence) {
    if let Some(Endless { sinks, window }) = endless {
        sequence.window(window, sinks);
        sequence.compact();
    }
}

/// Fills a cache with made-up keys and values, the same ones in all layers, whatever its type.
fn fill(forward: &mut Forward, layers: usize, math: &dyn Math) -> Result<(), Error> {
    let cache = forward.cache_mut();
    let [pages, page_size, heads, head_dim] = cache.shape();
    let slots = pages * page_size;
    let random = |seed| math.weights(&normal(slots * heads * head_dim, seed, 1.0));
    let (k, v) = (random(1)?, random(2)?);
    let own = DeviceArray::upload(math.engine(), &(0..slots as i64).collect::<Vec<_>>())?;
    let shape = [slots, heads, head_dim];
    let rows = KvRef::new(k.tensor(&shape)?, v.tensor(&shape)?);
    for layer in 0..layers {
        let append = Append::at(SlotMapping::Slots { slots: own.array(), positions: None });
        ops::append_paged(math.stream(), &rows, &mut cache.layer_mut(layer)?, &append, None)?;
    }
    Ok(math.stream().synchronize()?)
}
