//! Choices that wait for pages, the oldest first.

use std::collections::VecDeque;

use super::{choice::Choice, request::RequestId};

/// The queue: new requests behind, and preempted choices where their age puts them.
#[derive(Debug, Default)]
pub(super) struct Waiting {
    choices: VecDeque<Choice>,
}

impl Waiting {
    pub(super) fn len(&self) -> usize {
        self.choices.len()
    }

    pub(super) fn front(&self) -> Option<&Choice> {
        self.choices.front()
    }

    pub(super) fn pop(&mut self) -> Option<Choice> {
        self.choices.pop_front()
    }

    /// Puts a choice behind those that are older.
    pub(super) fn push(&mut self, choice: Choice) {
        let at = self.choices.partition_point(|other| other.age() < choice.age());
        self.choices.insert(at, choice);
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = &Choice> {
        self.choices.iter()
    }

    /// Takes the choices out that a test is true for.
    pub(super) fn take(&mut self, test: impl Fn(&Choice) -> bool) -> Vec<Choice> {
        let (taken, kept) = std::mem::take(&mut self.choices).into_iter().partition(test);
        self.choices = kept;
        let taken: VecDeque<Choice> = taken;
        taken.into()
    }
}

/// Why the first choice of the queue did not get in: it is tried again when more pages are available.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Blocked {
    pub(super) age: (RequestId, usize),
    pub(super) available: usize,
}
