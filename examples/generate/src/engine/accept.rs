//! What becomes of the tokens that were drawn.

use std::vec::Drain;

use super::{
    Engine,
    choice::Choice,
    request::{Event, RequestEvent},
};
use crate::{
    model::{Model, ModelLimits},
    sampling::Sampled,
};

impl<M: Model> Engine<M> {
    /// Adds the tokens of a step to their texts.
    pub(super) fn accept(&mut self, mut sampled: Vec<Sampled>, events: &mut Vec<RequestEvent>) {
        self.batch.commit(&mut self.running);
        let mut sampled = sampled.drain(..);
        let mut born = Vec::new();
        for number in 0..self.batch.picked().len() {
            let at = self.batch.at(number);
            self.accept_scores(at, &mut sampled, events);
            let draws = self.running[at].draws();
            self.running[at].scheduled = 0;
            if draws > 0 {
                self.accept_drawn(at, draws, &mut sampled, &mut born, events);
            }
            self.slide_window(at);
        }
        for choice in born {
            let at = self.running.partition_point(|other| other.age() < choice.age());
            self.running.insert(at, choice);
        }
    }

    /// Takes the log-probabilities of tokens of a prompt.
    fn accept_scores(&mut self, at: usize, sampled: &mut Drain<'_, Sampled>, events: &mut Vec<RequestEvent>) {
        let (vocab, choice) = (self.limits.model.vocab, &mut self.running[at]);
        let range = choice.to_score(choice.computed(), choice.scheduled);
        if range.is_empty() {
            return;
        }
        let scored: Vec<Sampled> = sampled.by_ref().take(range.len()).collect();
        if scored.iter().any(|sampled| sampled.token as usize >= vocab) {
            self.failures.push((choice.job.id, "the logits of a token are not finite".into()));
            return;
        }
        let token = |(sampled, at): (Sampled, usize)| Sampled { token: choice.text[at], ..sampled };
        let scored = scored.into_iter().zip(range.clone()).map(token).collect();
        choice.scored = range.end;
        events.push(RequestEvent { request: choice.job.id, event: Event::Prompt { scored } });
    }

    /// Takes the tokens that were drawn for a choice.
    fn accept_drawn(
        &mut self,
        at: usize,
        draws: usize,
        sampled: &mut Drain<'_, Sampled>,
        born: &mut Vec<Choice>,
        events: &mut Vec<RequestEvent>,
    ) {
        let vocab = self.limits.model.vocab;
        if sampled.as_slice()[..draws].iter().any(|sampled| sampled.token as usize >= vocab) {
            sampled.by_ref().take(draws).for_each(drop);
            self.failures.push((self.running[at].job.id, "the logits of a token are not finite".into()));
            return;
        }
        self.running[at].finite = self.running[at].computed();
        if self.config.reuse_prefixes && !self.running[at].cached {
            self.running[at].cache(&self.allocation.prefix);
        }
        if self.running[at].forks == 0 {
            self.accept_guesses(at, sampled.by_ref().take(draws), events);
            return;
        }
        let first = born.len();
        for index in 1..=std::mem::take(&mut self.running[at].forks) {
            let leader = &self.running[at];
            match leader.sequence.fork() {
                Ok(sequence) => born.push(leader.fork(index, sequence)),
                // a bug: all tokens are written
                Err(error) => self.failures.push((leader.job.id, error.to_string())),
            }
        }
        let choices = std::iter::once(&mut self.running[at]).chain(&mut born[first..]);
        for (choice, sampled) in choices.zip(sampled.by_ref().take(draws)) {
            choice.text.push(sampled.token);
            self.stats.generated_tokens += 1;
            let len = choice.text.len();
            emit(choice, len, sampled, &self.limits.model, events);
        }
    }

    /// Takes the tokens of one text: right guesses, and the first token that was not guessed. A guess is right if it is
    /// the token that was drawn in its place, with the seed and the position that it has without speculation; so the
    /// text is the same. For a guess that is one token this is speculative sampling (arXiv 2211.17192).
    fn accept_guesses(&mut self, at: usize, sampled: impl Iterator<Item = Sampled>, events: &mut Vec<RequestEvent>) {
        let choice = &mut self.running[at];
        let guesses = std::mem::take(&mut choice.guesses);
        let mut known = choice.text.len() - guesses;
        let mut goes_on = true;
        for sampled in sampled {
            if !goes_on {
                continue;
            }
            let is_right = choice.text.get(known) == Some(&sampled.token);
            if !is_right {
                choice.text.truncate(known);
                choice.text.push(sampled.token);
            }
            known += 1;
            self.stats.generated_tokens += 1;
            self.stats.accepted_tokens += u64::from(is_right);
            emit(choice, known, sampled, &self.limits.model, events);
            goes_on = is_right && choice.ended.is_none();
        }
        self.stats.guessed_tokens += guesses as u64;
        choice.text.truncate(known);
        // the keys of wrong guesses, which an endless text does not have
        if guesses > 0
            && let Err(error) = choice.sequence.truncate(known - 1)
        {
            self.failures.push((choice.job.id, error.to_string()));
        }
    }

    /// Releases the pages of an endless text that no later query sees.
    fn slide_window(&mut self, at: usize) {
        let choice = &mut self.running[at];
        if let Some(endless) = choice.job.request.endless
            && choice.sequence.window(endless.window, endless.sinks) > 0
        {
            choice.dropped += choice.sequence.compact();
        }
    }
}

/// Tells the client of the token that ends the first `len` tokens of a text.
fn emit(choice: &mut Choice, len: usize, sampled: Sampled, model: &ModelLimits, events: &mut Vec<RequestEvent>) {
    choice.ended = choice.job.end(sampled.token, len, model);
    events.push(RequestEvent { request: choice.job.id, event: Event::Token { choice: choice.index, sampled } });
}
