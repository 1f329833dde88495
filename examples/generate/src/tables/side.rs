//! One side of a comparison: a model with its own cache, and its sequences.

use std::time::{Duration, Instant};

use attn::{
    Dtype,
    ops::{self, Append, DeviceArray, KvMut, KvRef, SlotMapping},
};
use attn_cache::{Pages, ReadCost, Sequence, Step, StepCapacity};

use super::{PAGE_SIZE, TableModel};
use crate::{
    Error,
    model::{
        SampleRow, StepInput,
        draw::NoDraw,
        forward::{AttentionForm, Forward, ForwardOptions},
        math::Math,
        random_weights::Fill,
        runner::ModelRunner,
    },
    sampling::SamplingParams,
};

/// Sizes and form of a side.
#[derive(Clone, Copy, Debug)]
pub(super) struct SideOptions {
    pub(super) form: AttentionForm,
    pub(super) cache_dtype: Option<Dtype>,
    pub(super) sequences: usize,
    /// New tokens of a step.
    pub(super) step_tokens: usize,
    /// Tokens of a sequence in a step.
    pub(super) context: usize,
    pub(super) pages: usize,
}

/// A model that runs steps.
#[derive(Debug)]
pub(super) struct Side {
    runner: ModelRunner<NoDraw>,
    form: AttentionForm,
    vocab: usize,
    pub(super) pages: Pages,
    step: Step,
    pub(super) sequences: Vec<Sequence>,
}

impl Side {
    /// A side without sequences, whose cache is full of made-up keys and values.
    pub(super) fn new(model: &TableModel, options: &SideOptions) -> Result<Self, Error> {
        let SideOptions { form, cache_dtype, sequences, step_tokens, context, pages: count } = *options;
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
        let mut forward = Forward::with_form(&model.config, model.weights.clone(), &sizes, form, &*math)?;
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
        let runner = ModelRunner::new(math, forward, NoDraw, &sizes, context)?;
        Ok(Side { runner, form, vocab: model.config.vocab, pages, step, sequences: Vec::new() })
    }

    /// Adds a sequence whose tokens are in the cache, as far as it keeps them.
    pub(super) fn add(&mut self, tokens: usize) -> Result<(), Error> {
        let mut sequence = Sequence::new(&self.pages);
        sequence.append(tokens)?;
        sequence.commit();
        if let Some(streaming) = self.form.streaming {
            streaming.forget(&mut sequence);
        }
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
        if let Some(streaming) = self.form.streaming {
            for sequence in &mut self.sequences {
                streaming.forget(sequence);
            }
        }
        self.step.build(&self.sequences[..])?;
        if self.form.cascades.is_some() {
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

/// Fills a cache with made-up keys and values, the same ones whatever its type.
fn fill(forward: &mut Forward, layers: usize, math: &dyn Math) -> Result<(), Error> {
    let cache = forward.cache_mut();
    let [pages, page_size, heads, head_dim] = cache.shape();
    let slots = pages * page_size;
    let (fill, elements) = (Fill::new(math)?, slots * heads * head_dim);
    let (mut k, mut v) = (math.buffer(elements)?, math.buffer(elements)?);
    let own: Vec<i64> = (0..slots as i64).collect();
    let own = DeviceArray::upload(math.engine(), &own)?;
    for layer in 0..layers {
        for (part, rows) in [&mut k, &mut v].into_iter().enumerate() {
            fill.normal(math, rows, 0..elements, (2 * layer + part) as u64, 1.0)?;
        }
        let shape = [slots, heads, head_dim];
        let append = Append::at(SlotMapping::Slots { slots: own.array(), positions: None });
        let rows = KvRef::new(k.tensor(&shape)?, v.tensor(&shape)?);
        let to: &mut KvMut<'_> = &mut cache.layer_mut(layer)?;
        ops::append_paged(math.stream(), &rows, to, &append, None)?;
    }
    Ok(math.stream().synchronize()?)
}
