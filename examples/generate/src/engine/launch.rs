//! One run of the model over the choices that are scheduled.

use attn_cache::{BlockSource, PageId, Pages, ReadCost, Sequence, Step};

use super::{choice::Choice, stats::EngineStats};
use crate::{
    Error,
    model::{Endless, Model, SampleRow, StepInput},
    sampling::{Sampled, SamplingParams},
};

/// The choices of a step, by their indices among those that run.
struct Picked<'a> {
    running: &'a mut [Choice],
    indices: &'a [usize],
}

impl BlockSource for Picked<'_> {
    fn sequences(&self) -> usize {
        self.indices.len()
    }
    fn pages(&self, sequence: usize) -> &[PageId] {
        self.running[self.indices[sequence]].sequence.page_ids()
    }
    fn tokens(&self, sequence: usize) -> usize {
        self.running[self.indices[sequence]].sequence.len()
    }
    fn new_tokens(&self, sequence: usize) -> usize {
        self.running[self.indices[sequence]].sequence.new_tokens()
    }
    fn pool(&self, sequence: usize) -> Option<&Pages> {
        Some(self.running[self.indices[sequence]].sequence.pool())
    }
    fn version(&self, sequence: usize) -> u64 {
        self.running[self.indices[sequence]].sequence.version()
    }
    fn commit_sequence(&mut self, sequence: usize) {
        self.running[self.indices[sequence]].sequence.commit();
    }
}

/// The choices of a step, with the arrays that the model gets. Its memory is that of earlier steps.
#[derive(Debug)]
pub(super) struct StepBatch {
    step: Step,
    /// The choices, by their indices among those that run.
    picked: Vec<usize>,
    tokens: Vec<u32>,
    endless: Vec<Option<Endless>>,
}

impl StepBatch {
    pub(super) fn new(step: Step) -> Self {
        StepBatch { step, picked: Vec::new(), tokens: Vec::new(), endless: Vec::new() }
    }

    /// Takes the choices that are scheduled. It is false if there are none.
    pub(super) fn pick(&mut self, running: &[Choice]) -> bool {
        self.picked.clear();
        self.picked.extend((0..running.len()).filter(|&index| running[index].scheduled > 0));
        !self.picked.is_empty()
    }

    /// The indices of the choices among those that run, in their order.
    pub(super) fn picked(&self) -> &[usize] {
        &self.picked
    }

    /// The index of a choice among those that run; `number` is its number in the step.
    pub(super) fn at(&self, number: usize) -> usize {
        self.picked[self.step.order()[number]]
    }

    /// The keys of all new tokens are written.
    pub(super) fn commit(&mut self, running: &mut [Choice]) {
        self.step.commit(&mut Picked { running, indices: &self.picked });
    }

    /// No key of a new token is reliable. Page copies of the step are for choices that end now.
    pub(super) fn discard(&mut self) {
        self.step.commit::<[Sequence]>(&mut []);
    }

    /// Builds the step and runs it. The tokens that were drawn are in the order of the step, and for each choice in the
    /// order of its rows.
    pub(super) fn launch(
        &mut self,
        model: &mut impl Model,
        running: &mut [Choice],
        cascade: bool,
        stats: &mut EngineStats,
    ) -> Result<Vec<Sampled>, Error> {
        self.step.build(&Picked { running, indices: &self.picked })?;
        let mut picked = self.picked.iter().map(|&index| &running[index]);
        if cascade && self.picked.len() > 1 && !picked.any(Choice::is_endless) {
            self.step.choose_levels(&ReadCost::default());
        }
        let order = self.step.order().iter().map(|&sequence| &running[self.picked[sequence]]);
        let score = |choice: &Choice, at: usize| SamplingParams {
            temperature: 1.0,
            top_logprobs: choice.job.request.sampling.top_logprobs,
            score: Some(choice.text[at]),
            ..SamplingParams::default()
        };
        let scores = |choice: &Choice| choice.to_score(choice.computed(), choice.scheduled);
        let of_scores: Vec<SamplingParams> =
            order.clone().flat_map(|choice| scores(choice).map(move |at| score(choice, at))).collect();
        let mut of_scores = of_scores.iter();
        self.tokens.clear();
        self.endless.clear();
        let mut rows = Vec::with_capacity(self.picked.len());
        for choice in order {
            let begin = self.tokens.len();
            self.tokens.extend_from_slice(choice.new_tokens());
            let computed = choice.computed() - choice.scheduled;
            for (position, params) in scores(choice).zip(of_scores.by_ref()) {
                let row = begin + position - 1 - computed;
                rows.push(SampleRow { row, position, params, prompt: &choice.text[..position], generated: &[] });
            }
            self.endless.push(choice.job.request.endless);
            let draws = choice.draws();
            let first = self.tokens.len() - (1 + choice.guesses).min(draws);
            for draw in 0..draws {
                // guesses are rows of their own; choices that begin here share the last row
                let guesses = draw.min(choice.guesses);
                rows.push(SampleRow {
                    row: first + guesses,
                    position: choice.text.len() - choice.guesses + guesses,
                    params: &choice.job.params[choice.index + draw - guesses],
                    prompt: choice.prompt(),
                    generated: choice.generated(guesses),
                });
            }
        }
        stats.computed_tokens += self.tokens.len() as u64;
        let input = StepInput { step: &self.step, tokens: &self.tokens, rows: &rows, endless: &self.endless };
        let sampled = model.run(&input)?;
        if sampled.len() != rows.len() {
            return Err(Error::Model(format!("{} tokens were drawn for {} rows", sampled.len(), rows.len())));
        }
        Ok(sampled)
    }
}
