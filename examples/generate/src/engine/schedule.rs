//! What a step computes: a token of every text first, then chunks of prompts, then prompts of new requests.

use super::{Engine, choice::Choice, request::RequestEvent};
use crate::model::Model;

impl<M: Model> Engine<M> {
    /// Chooses the new tokens of a step, and gives them slots.
    pub(super) fn schedule(&mut self, events: &mut Vec<RequestEvent>) {
        self.has_preempted = false;
        self.allocation.reserve(&self.running, &self.limits);
        let mut tokens = self.limits.model.step_tokens;
        self.spare_rows = self.schedule_texts(&mut tokens);
        let all_got_theirs = self.schedule_prompts(&mut tokens);
        if all_got_theirs && !self.has_preempted {
            self.admit(&mut tokens, events);
        }
    }

    /// Schedules the last token of every text, and guesses where there is room. The oldest choices come first, and take
    /// pages from the newest. Returns rows of the step that no draw needs.
    fn schedule_texts(&mut self, tokens: &mut usize) -> usize {
        let texts = self.running.iter().filter(|choice| choice.rest() == 1).count();
        let prompts = texts < self.running.len() || self.waiting.len() > 0;
        let chunk = if prompts { self.config.chunk_tokens } else { 0 };
        let seats = if self.waiting.len() > 0 { self.limits.model.step_sequences } else { self.seats() };
        // a prompt that is scored needs rows, and guesses leave it all of them
        let scores = self.running.iter().any(Choice::is_scoring);
        let mut spare_tokens = if scores { 0 } else { tokens.saturating_sub(texts + chunk) };
        let mut spare_rows = self.limits.model.step_rows - seats;
        let mut at = 0;
        while at < self.running.len() {
            if self.running[at].rest() != 1 {
                at += 1;
                continue;
            }
            self.guess(at, spare_tokens.min(spare_rows));
            let (new, guesses) = (self.running[at].rest(), self.running[at].guesses);
            // a guess takes no pages from others
            let has_room =
                if guesses == 0 { self.make_room(at, new) } else { self.allocation.has_room(&self.running[at], new) };
            if !has_room && guesses > 0 {
                self.running[at].withdraw_guesses();
                spare_tokens = 0;
            } else if has_room && self.allocation.append(&mut self.running[at], new) {
                *tokens -= new;
                (spare_tokens, spare_rows) = (spare_tokens - (new - 1), spare_rows - (new - 1));
                at += 1;
            } else if self.running[at].is_endless() {
                at += 1;
            } else {
                self.preempt(at);
            }
        }
        spare_rows
    }

    /// Makes pages free for new tokens of a choice: it evicts, and then preempts choices from the newest on. A choice
    /// that is in the step already, or older, keeps its pages. It is false if there are too few, and then the choice
    /// itself may be preempted.
    fn make_room(&mut self, at: usize, tokens: usize) -> bool {
        loop {
            if self.allocation.has_room(&self.running[at], tokens) {
                return true;
            }
            let may_go = |choice: &Choice| choice.scheduled == 0 && !choice.is_endless();
            let Some(newest) = self.running.iter().rposition(may_go).filter(|&newest| newest > at) else {
                return false;
            };
            self.preempt(newest);
        }
    }

    /// Gives the pages of a choice back. It is computed again later; what stays in the prefix tree is found then.
    fn preempt(&mut self, at: usize) {
        let mut choice = self.running.remove(at);
        choice.withdraw_guesses();
        self.allocation.release(&mut choice);
        self.waiting.push(choice);
        self.stats.preemptions += 1;
        self.has_preempted = true;
    }

    /// Adds guesses to a text, as far as they can be kept.
    fn guess(&mut self, at: usize, spare: usize) {
        let choice = &mut self.running[at];
        let request = &choice.job.request;
        // the token that is drawn last is no guess
        let in_text = (request.max_tokens - choice.generated(0).len()).saturating_sub(1);
        let in_context = self.limits.model.context.saturating_sub(choice.text.len() + 1);
        let most = request.speculate.min(in_text).min(in_context).min(spare);
        if most > 0 && choice.forks == 0 {
            choice.guess(most);
        }
    }

    /// Schedules a chunk of every prompt that runs. It is false if one has no pages: then no new one is admitted.
    fn schedule_prompts(&mut self, tokens: &mut usize) -> bool {
        let (mut at, mut all) = (0, true);
        while at < self.running.len() {
            if self.running[at].scheduled == 0 {
                all &= self.schedule_chunk(at, tokens);
            }
            at += 1;
        }
        all
    }

    /// Schedules the next chunk of a prompt, if it fits into the step. It is false if it does not, or has no pages.
    pub(super) fn schedule_chunk(&mut self, at: usize, tokens: &mut usize) -> bool {
        let choice = &self.running[at];
        let Some(chunk) = self.chunk(choice, *tokens) else { return false };
        let scheduled = self.make_room(at, chunk) && self.allocation.append(&mut self.running[at], chunk);
        if scheduled {
            *tokens -= chunk;
            let choice = &self.running[at];
            let scores = choice.to_score(choice.computed(), chunk).len();
            // one row of them is a seat of the choice
            self.spare_rows -= scores.saturating_sub(1);
        }
        scheduled
    }

    /// Tokens of the next chunk of a prompt, where `tokens` are left in the step.
    fn chunk(&self, choice: &Choice, tokens: usize) -> Option<usize> {
        let limits = &self.limits.model;
        let (mut most, mut tokens) = (self.config.chunk_tokens, tokens);
        if choice.is_scoring() {
            most = most.min(1 + limits.step_rows - limits.step_sequences);
            tokens = tokens.min(1 + self.spare_rows);
        }
        let chunk = if self.config.batch_invariant {
            // up to the next border, or not at all
            let border = self.config.chunk_tokens - choice.computed() % self.config.chunk_tokens;
            let chunk = choice.rest().min(most).min(border);
            if chunk <= tokens { chunk } else { 0 }
        } else {
            choice.rest().min(most).min(tokens)
        };
        (chunk > 0).then_some(chunk)
    }

    /// Sequences that run, with choices that are still to begin.
    pub(super) fn seats(&self) -> usize {
        self.running.iter().map(Choice::seats).sum()
    }
}
