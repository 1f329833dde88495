//! Requests that leave the queue, in the order in which they came.

use attn_cache::{Hit, Sequence};

use super::{
    Engine,
    choice::Choice,
    request::{Event, RequestEvent},
    waiting::Blocked,
};
use crate::model::Model;

impl<M: Model> Engine<M> {
    /// Admits choices while the step has tokens left, and schedules their first chunks. No choice passes an older one.
    pub(super) fn admit(&mut self, tokens: &mut usize, events: &mut Vec<RequestEvent>) {
        while *tokens > 0
            && let Some(front) = self.waiting.front()
        {
            if self.seats() + front.seats() > self.limits.model.step_sequences {
                return;
            }
            let Some(prefix) = self.prefix_with_room() else { return };
            let Some(mut choice) = self.waiting.pop() else { return };
            let cached_tokens = prefix.as_ref().map_or(0, |hit| hit.tokens);
            if let Some(hit) = prefix {
                choice.sequence = Sequence::with_prefix(&self.limits.pages, hit);
                self.stats.looked_up_tokens += choice.text.len() as u64;
                self.stats.hit_tokens += cached_tokens as u64;
            }
            if !choice.started {
                choice.started = true;
                events.push(RequestEvent { request: choice.job.id, event: Event::Started { cached_tokens } });
            }
            let at = self.running.partition_point(|other| other.age() < choice.age());
            self.running.insert(at, choice);
            self.allocation.reserve(&self.running, &self.limits);
            if !self.schedule_chunk(at, tokens) {
                return;
            }
        }
    }

    /// The cached prefix of the first choice in the queue, if the pool has room for the rest of it: `Some(None)` where
    /// prefixes are not reused.
    fn prefix_with_room(&mut self) -> Option<Option<Hit>> {
        let front = self.waiting.front()?;
        let available = self.allocation.available().saturating_sub(self.promised());
        let now = Blocked { age: front.age(), available };
        let was_blocked = self.blocked.is_some_and(|blocked| blocked.age == now.age && available <= blocked.available);
        if was_blocked && !self.running.is_empty() {
            return None;
        }
        if let Some(endless) = front.job.request.endless {
            let pages = |choices: usize| choices * self.limits.pages_of_endless(endless);
            let of_others: usize = self.running.iter().map(|choice| self.endless_pages_of(choice)).sum();
            let need = pages(1 + front.forks);
            let fits = need <= available && of_others + need <= self.limits.endless_pages();
            self.blocked = (!fits).then_some(now);
            return fits.then_some(None);
        }
        // a prefix has keys and no logits
        let reuse = self.config.reuse_prefixes && !front.is_scoring();
        let hit = reuse.then(|| self.allocation.prefix.lookup(&front.job.namespace, &front.text));
        // the prefix is locked now, so its pages can no longer be evicted
        let available = self.allocation.available().saturating_sub(self.promised());
        let held = hit.as_ref().map_or(0, |hit| hit.pages.len());
        let fits = self.pages_to_begin(front) - held <= available;
        self.blocked = (!fits).then_some(now);
        fits.then_some(hit)
    }

    /// Pages that must be available for a choice to begin, its cached prefix included. Beside others it leaves the
    /// watermark, and room for a token of each of its choices.
    fn pages_to_begin(&self, choice: &Choice) -> usize {
        let page_size = self.limits.pages.page_size();
        if self.running.iter().all(Choice::is_endless) {
            return choice.text.len().div_ceil(page_size);
        }
        (choice.text.len() + 1).div_ceil(page_size) + choice.forks + self.watermark
    }

    /// Pages that running prompts are still to get.
    fn promised(&self) -> usize {
        let page_size = self.limits.pages.page_size();
        let prompts = self.running.iter().filter(|choice| choice.rest() > 0 && !choice.is_endless());
        let rest = |choice: &Choice| {
            let pages = (choice.text.len() + 1).div_ceil(page_size) + choice.forks;
            pages.saturating_sub(choice.sequence.page_ids().len())
        };
        prompts.map(rest).sum()
    }

    fn endless_pages_of(&self, choice: &Choice) -> usize {
        let endless = choice.job.request.endless;
        endless.map_or(0, |endless| (1 + choice.forks) * self.limits.pages_of_endless(endless))
    }
}
