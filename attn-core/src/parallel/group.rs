//! The memory that the ranks of a group share.

use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use super::call::Call;
use super::error::ParallelError;

/// What a rank sends, in the order of its elements.
#[derive(Debug)]
struct Deposit {
    call: Call,
    bytes: Vec<u8>,
}

#[derive(Debug)]
struct State {
    /// Of the ranks that have come to the current call.
    deposits: Vec<Option<Deposit>>,
    /// Calls that are done.
    rounds: u64,
    /// What all ranks sent in the last call that is done. No call is done before every rank has taken the one before.
    sent: Arc<Vec<Vec<u8>>>,
    broken: Option<ParallelError>,
}

/// A group of ranks that meet in every call.
#[derive(Debug)]
pub(super) struct Group {
    state: Mutex<State>,
    changed: Condvar,
    limit: Duration,
}

impl Group {
    pub(super) fn new(ranks: usize, limit: Duration) -> Self {
        let deposits = (0..ranks).map(|_| None).collect();
        let state = State { deposits, rounds: 0, sent: Arc::default(), broken: None };
        Group { state: Mutex::new(state), changed: Condvar::new(), limit }
    }

    pub(super) fn ranks(&self) -> usize {
        self.lock().deposits.len()
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        // nothing panics while it holds the lock
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits for all ranks; returns what each of them sent.
    pub(super) fn exchange(
        &self,
        rank: usize,
        call: &Call,
        bytes: Vec<u8>,
    ) -> Result<Arc<Vec<Vec<u8>>>, ParallelError> {
        let mut state = self.lock();
        if let Some(error) = &state.broken {
            return Err(error.clone());
        }
        let round = state.rounds;
        state.deposits[rank] = Some(Deposit { call: call.clone(), bytes });
        if state.deposits.iter().all(Option::is_some) {
            return self.finish(&mut state);
        }
        let waits = |state: &mut State| state.rounds == round && state.broken.is_none();
        let (mut state, waited) =
            self.changed.wait_timeout_while(state, self.limit, waits).unwrap_or_else(PoisonError::into_inner);
        if state.rounds != round {
            return Ok(state.sent.clone());
        }
        if waited.timed_out() && state.broken.is_none() {
            let missing = (0..state.deposits.len()).filter(|&rank| state.deposits[rank].is_none()).collect();
            let error = ParallelError::TimedOut { missing, call: call.to_string(), limit: self.limit };
            self.break_with(&mut state, error);
        }
        state.broken.clone().map_or_else(|| Ok(state.sent.clone()), Err)
    }

    /// Ends a call to which all ranks have come.
    fn finish(&self, state: &mut State) -> Result<Arc<Vec<Vec<u8>>>, ParallelError> {
        let deposits: Vec<Deposit> = state.deposits.iter_mut().filter_map(Option::take).collect();
        if let Some(other) = deposits.iter().position(|of| of.call != deposits[0].call) {
            let [first, other_call] = [0, other].map(|of| deposits[of].call.to_string());
            let error = ParallelError::Mismatch { rank: 0, call: first, other, other_call };
            self.break_with(state, error.clone());
            return Err(error);
        }
        state.sent = Arc::new(deposits.into_iter().map(|of| of.bytes).collect());
        state.rounds += 1;
        self.changed.notify_all();
        Ok(state.sent.clone())
    }

    fn break_with(&self, state: &mut State, error: ParallelError) {
        state.broken.get_or_insert(error);
        self.changed.notify_all();
    }

    /// Breaks the group for all ranks.
    pub(super) fn abort(&self, error: ParallelError) {
        self.break_with(&mut self.lock(), error);
    }
}
