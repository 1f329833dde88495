//! Steps of sequences that a program chooses itself, without an engine: for checks and measurements.

use attn_cache::{Sequence, Step};

use super::{Model, SampleRow, StepInput, llama::Llama};
use crate::{
    Error,
    sampling::{Sampled, SamplingParams},
};

/// A model, and the tables of its steps. Errors are those of the model, and of a pool without free pages.
#[derive(Debug)]
pub struct Steps<M = Llama> {
    /// The model.
    pub llama: M,
    /// The tables of a step.
    pub step: Step,
}

impl<M: Model> Steps<M> {
    /// Steps of a model within its limits.
    pub fn new(llama: M) -> Result<Self, Error> {
        let capacity = llama.limits().step_capacity(llama.pages().page_size());
        Ok(Steps { step: Step::new(llama.pages(), capacity)?, llama })
    }

    /// An empty sequence.
    pub fn sequence(&self) -> Sequence {
        Sequence::new(self.llama.pages())
    }

    /// Appends new tokens to sequences, and draws after each of `rows`.
    pub fn draw(
        &mut self,
        sequences: &mut [Sequence],
        new: &[&[u32]],
        rows: &[SampleRow<'_>],
    ) -> Result<Vec<Sampled>, Error> {
        for (sequence, new) in sequences.iter_mut().zip(new) {
            sequence.append(new.len())?;
        }
        self.step.build(&*sequences)?;
        let input = StepInput { step: &self.step, tokens: &new.concat(), rows, endless: &[] };
        let drawn = self.llama.run(&input)?;
        self.step.commit(sequences);
        Ok(drawn)
    }

    /// Appends new tokens, and draws greedily after those of these indices, by [`Steps::draw`].
    pub fn run(&mut self, sequences: &mut [Sequence], new: &[&[u32]], rows: &[usize]) -> Result<Vec<Sampled>, Error> {
        let params = SamplingParams::default();
        let row = |&row: &usize| SampleRow { row, position: 0, params: &params, prompt: &[], generated: &[] };
        self.draw(sequences, new, &rows.iter().map(row).collect::<Vec<_>>())
    }
}

impl Steps {
    /// The logits after the new tokens of these indices, and what [`Steps::run`] draws.
    pub fn logits(
        &mut self,
        sequences: &mut [Sequence],
        new: &[&[u32]],
        rows: &[usize],
    ) -> Result<Vec<Vec<f32>>, Error> {
        self.run(sequences, new, rows)?;
        let vocab = self.llama.config().vocab;
        Ok(self.llama.logits(rows.len())?.chunks(vocab).map(<[f32]>::to_vec).collect())
    }

    /// The logits after each token of a text, which is fed in chunks of these sizes, by turns.
    pub fn text(&mut self, ids: &[u32], chunks: &[usize]) -> Result<Vec<Vec<f32>>, Error> {
        let (mut sequence, mut logits) = ([self.sequence()], Vec::new());
        for &chunk in chunks.iter().cycle() {
            let new = &ids[logits.len()..ids.len().min(logits.len() + chunk)];
            logits.extend(self.logits(&mut sequence, &[new], &(0..new.len()).collect::<Vec<_>>())?);
            if logits.len() == ids.len() {
                break;
            }
        }
        Ok(logits)
    }
}

/// The indices of the last new tokens of each sequence of a step.
pub fn ends(new: &[&[u32]]) -> Vec<usize> {
    let lens = new.iter().scan(0, |end, new| {
        *end += new.len();
        Some(*end - 1)
    });
    lens.collect()
}
