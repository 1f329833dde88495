//! How long clients should stay away when the queue is full.

use std::{
    sync::{Mutex, PoisonError},
    time::Duration,
};

/// The answer before anything has ended.
const FIRST: u64 = 1;
/// The answer, at most: an estimate of minutes is none.
const MOST: u64 = 60;
/// The weight of the last text in the mean.
const WEIGHT: f64 = 0.125;

/// The time that texts take lately, their time in the queue included.
#[derive(Debug, Default)]
pub(crate) struct Pace {
    /// Seconds, a moving mean; `None` before the first text.
    mean: Mutex<Option<f64>>,
}

impl Pace {
    /// A text has ended.
    pub(crate) fn ended(&self, after: Duration) {
        let mut mean = self.mean.lock().unwrap_or_else(PoisonError::into_inner);
        let (after, last) = (after.as_secs_f64(), mean.unwrap_or(after.as_secs_f64()));
        *mean = Some(last + WEIGHT * (after - last));
    }

    /// Seconds until a queue will have been served. By Little's law, texts end at the rate of all that are here over
    /// the time that each is here.
    pub(crate) fn seconds(&self, waiting: usize, running: usize) -> u64 {
        let mean = *self.mean.lock().unwrap_or_else(PoisonError::into_inner);
        let share = waiting as f64 / (waiting + running).max(1) as f64;
        mean.map_or(FIRST, |mean| ((mean * share).ceil() as u64).clamp(FIRST, MOST))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_longer_queue_and_slower_texts_take_longer() {
        let pace = Pace::default();
        assert_eq!(pace.seconds(100, 4), FIRST);
        pace.ended(Duration::from_secs(12));
        assert_eq!([(0, 0), (0, 9), (4, 4), (9, 3), (1000, 1)].map(|(w, r)| pace.seconds(w, r)), [1, 1, 6, 9, 12]);
        (0..100).for_each(|_| pace.ended(Duration::from_millis(10)));
        assert_eq!(pace.seconds(1000, 1), 1);
        (0..100).for_each(|_| pace.ended(Duration::from_secs(1000)));
        assert_eq!(pace.seconds(10, 10), MOST);
    }
}
