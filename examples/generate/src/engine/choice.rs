//! One continuation of a prompt.

use std::{ops::Range, sync::Arc};

use attn_cache::{Pages, Prefix, Sequence, Token};

use super::{
    job::Job,
    prompt_lookup::PromptLookup,
    request::{FinishReason, RequestId},
};

/// A text that grows, and the pages of its keys. The tokens of the text that have no keys yet are its *rest*: the
/// prompt at first, then the token that was drawn last.
#[derive(Debug)]
pub(super) struct Choice {
    pub(super) job: Arc<Job>,
    /// Which choice of the request.
    pub(super) index: usize,
    /// Further choices that begin when the prompt is computed.
    pub(super) forks: usize,
    /// The prompt, generated tokens, and the guesses of this step.
    pub(super) text: Vec<Token>,
    /// Empty while the choice waits.
    pub(super) sequence: Sequence,
    /// Tokens of an endless text whose pages have left the page table.
    pub(super) dropped: usize,
    /// New tokens in this step.
    pub(super) scheduled: usize,
    /// Guesses at the end of the text.
    pub(super) guesses: usize,
    /// Tokens at the start whose keys and values are finite: a token was drawn that attends to them all. A value that
    /// is not a number spreads to earlier rows of its tile, whose weight for it is zero.
    pub(super) finite: usize,
    /// Tokens of the prompt whose log-probabilities were told, or are not asked for.
    pub(super) scored: usize,
    /// Whether the prefix tree has the prompt.
    pub(super) cached: bool,
    /// Whether the client knows that the request has started.
    pub(super) started: bool,
    pub(super) ended: Option<FinishReason>,
    lookup: Option<PromptLookup>,
}

impl Choice {
    /// The first choice of a request, with those that begin where its prompt ends.
    pub(super) fn new(job: Job, pages: &Pages) -> Self {
        let guesses = job.request.speculate > 0 && job.request.endless.is_none();
        Choice {
            index: 0,
            forks: job.request.choices - 1,
            text: job.request.prompt.to_vec(),
            sequence: Sequence::new(pages),
            dropped: 0,
            scheduled: 0,
            guesses: 0,
            finite: 0,
            // nothing is before the first token
            scored: if job.request.score_prompt { 1 } else { job.request.prompt.len() },
            cached: false,
            started: false,
            ended: None,
            lookup: guesses.then(PromptLookup::default),
            job: Arc::new(job),
        }
    }

    /// Another choice, which shares the pages of the prompt. The keys of all tokens are written.
    pub(super) fn fork(&self, index: usize, sequence: Sequence) -> Self {
        Choice {
            job: Arc::clone(&self.job),
            index,
            forks: 0,
            text: self.text.clone(),
            sequence,
            dropped: 0,
            scheduled: 0,
            guesses: 0,
            finite: self.finite,
            scored: self.scored,
            cached: self.cached,
            started: true,
            ended: None,
            lookup: self.lookup.clone(),
        }
    }

    /// What orders choices: earlier requests first.
    pub(super) fn age(&self) -> (RequestId, usize) {
        (self.job.id, self.index)
    }

    pub(super) fn is_endless(&self) -> bool {
        self.job.request.endless.is_some()
    }

    /// Tokens that have keys, or get them in this step.
    pub(super) fn computed(&self) -> usize {
        self.dropped + self.sequence.len()
    }

    /// Tokens that have no keys yet.
    pub(super) fn rest(&self) -> usize {
        self.text.len() - self.computed()
    }

    pub(super) fn prompt(&self) -> &[Token] {
        &self.text[..self.job.request.prompt.len()]
    }

    /// Generated tokens, with the first `guesses` guesses.
    pub(super) fn generated(&self, guesses: usize) -> &[Token] {
        &self.text[self.job.request.prompt.len()..self.text.len() - self.guesses + guesses]
    }

    /// The new tokens of this step.
    pub(super) fn new_tokens(&self) -> &[Token] {
        let computed = self.computed();
        &self.text[computed - self.scheduled..computed]
    }

    /// Tokens that are drawn after this step: none before the end of the text.
    pub(super) fn draws(&self) -> usize {
        if self.scheduled == 0 || self.rest() > 0 { 0 } else { 1 + self.forks + self.guesses }
    }

    /// Whether log-probabilities of the prompt are still to be told.
    pub(super) fn is_scoring(&self) -> bool {
        self.scored < self.job.request.prompt.len()
    }

    /// Sequences of a step that the choice may need, and one more row while it scores its prompt.
    pub(super) fn seats(&self) -> usize {
        1 + self.forks + usize::from(self.is_scoring())
    }

    /// The tokens of the prompt that are scored after `computed` tokens, the last `new` of which are of this step.
    pub(super) fn to_score(&self, computed: usize, new: usize) -> Range<usize> {
        let first = (computed - new + 1).max(self.scored);
        first..(computed + 1).min(self.job.request.prompt.len()).max(first)
    }

    /// Guesses up to `most` tokens that may follow the text.
    pub(super) fn guess(&mut self, most: usize) {
        if let Some(lookup) = &mut self.lookup {
            self.guesses = lookup.guess(&mut self.text, most);
        }
    }

    /// Takes the guesses back.
    pub(super) fn withdraw_guesses(&mut self) {
        self.text.truncate(self.text.len() - self.guesses);
        self.guesses = 0;
    }

    /// Gives the keys that are finite to the prefix tree, without those of guesses. An endless text keeps its keys for
    /// itself: its pages are counted beforehand.
    pub(super) fn cache(&mut self, prefix: &Prefix) {
        if self.is_endless() {
            return;
        }
        let written = self.sequence.len() - self.sequence.new_tokens();
        let text = &self.text[..written.min(self.finite).min(self.text.len() - self.guesses)];
        if let Err(error) = self.sequence.cache(prefix, &self.job.namespace, text) {
            // a bug; the text is right all the same
            tracing::error!(%error, request = self.job.id.0, "a prefix is not cached");
        }
        self.cached = true;
    }
}
