//! How requests end: by themselves, by their client, or by a failure.

use super::{
    Engine,
    choice::Choice,
    request::{Event, FinishReason, RequestEvent, RequestId},
};
use crate::{Error, model::Model};

impl<M: Model> Engine<M> {
    /// Ends a request whose client went away. Its pages are given back at once; the next step gives the event of each
    /// choice. A request that is not there has ended already.
    pub fn cancel(&mut self, request: RequestId) {
        self.end(request, None, FinishReason::Cancelled);
    }

    /// Ends one choice of a request, as a token that ends a text would: its client has found a string that it stops at.
    /// Nothing happens to a choice that has ended or has not begun.
    pub fn stop(&mut self, request: RequestId, choice: usize) {
        self.end(request, Some(choice), FinishReason::Stop);
    }

    fn end(&mut self, request: RequestId, index: Option<usize>, reason: FinishReason) {
        let is_meant = |choice: &Choice| {
            let is_choice = index.is_none_or(|index| choice.index == index && choice.forks == 0);
            choice.job.id == request && is_choice
        };
        let mut ended = self.waiting.take(is_meant);
        self.running.iter_mut().filter(|choice| is_meant(choice)).for_each(|choice| choice.ended = Some(reason));
        ended.iter_mut().for_each(|choice| choice.ended = Some(reason));
        let mut events = std::mem::take(&mut self.outbox);
        self.sweep(ended, &mut events);
        self.outbox = events;
    }

    /// Takes out the choices that ended, beside those in `ended`, and the requests that failed.
    pub(super) fn sweep(&mut self, mut ended: Vec<Choice>, events: &mut Vec<RequestEvent>) {
        for (request, message) in std::mem::take(&mut self.failures) {
            self.fail(request, message, events);
        }
        ended.extend(self.running.extract_if(.., |choice| choice.ended.is_some()));
        if ended.is_empty() {
            return;
        }
        // what they computed may be a prefix of what waits
        self.blocked = None;
        let mut ended = ended.into_iter();
        while let Some(mut choice) = ended.next() {
            self.allocation.release(&mut choice);
            let (request, reason) = (choice.job.id, choice.ended.unwrap_or(FinishReason::Cancelled));
            let of_choice = |choice| RequestEvent { request, event: Event::Finished { choice, reason } };
            events.extend((choice.index..=choice.index + choice.forks).map(of_choice));
            drop(choice);
            let mut left = self.running.iter().chain(self.waiting.iter()).chain(ended.as_slice());
            self.stats.ended += u64::from(!left.any(|choice| choice.job.id == request));
        }
        self.check_in_debug_builds();
    }

    /// The model failed: the keys of the step's new tokens are not reliable.
    pub(super) fn fail_step(&mut self, error: &Error) {
        self.batch.discard();
        for &index in self.batch.picked() {
            self.failures.push((self.running[index].job.id, error.to_string()));
        }
    }

    /// Nothing could be scheduled though something waits: a bug. A request that fails is better than one that hangs.
    pub(super) fn fail_oldest(&mut self, events: &mut Vec<RequestEvent>) {
        let oldest = self.running.first().into_iter().chain(self.waiting.front()).map(|choice| choice.job.id).min();
        if let Some(request) = oldest {
            debug_assert!(false, "a request cannot go on: {:?}", self.stats());
            self.fail(request, "the engine cannot go on with it".into(), events);
        }
    }

    /// Ends a request with all of its choices. Nothing of them is cached beyond what was: keys may be broken. A request
    /// that is not there failed already.
    pub(super) fn fail(&mut self, request: RequestId, message: String, events: &mut Vec<RequestEvent>) {
        let mut failed = self.waiting.take(|choice| choice.job.id == request);
        failed.extend(self.running.extract_if(.., |choice| choice.job.id == request));
        if failed.is_empty() {
            return;
        }
        drop(failed);
        tracing::warn!(request = request.0, message, "a request failed");
        events.push(RequestEvent { request, event: Event::Failed { message } });
        self.stats.ended += 1;
        self.stats.failed += 1;
        self.check_in_debug_builds();
    }
}
