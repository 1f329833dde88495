//! What the runs have reached, so that a test which no longer reaches something fails.

use std::sync::atomic::{AtomicUsize, Ordering};

/// Events that random operations must reach.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Event {
    Hit,
    Remap,
    CopyOnWrite,
    ChainedCopy,
    OutOfPages,
    MadeRoom,
    EvictedHeldPage,
    Forked,
    ForkRefused,
    TruncatedIntoShared,
    TruncateRefused,
    Released,
    ReleasedInPart,
    Compacted,
    CacheRefused,
    CopyDropped,
    ChangedInStep,
    Abandoned,
    SwappedOut,
    SwappedIn,
    HostFull,
    TwoLevels,
    ThreeLevels,
    Regrouped,
    ClearedNamespace,
}

const EVENTS: usize = Event::ClearedNamespace as usize + 1;

static COUNTS: [AtomicUsize; EVENTS] = [const { AtomicUsize::new(0) }; EVENTS];

pub(crate) fn count(event: Event, times: usize) {
    COUNTS[event as usize].fetch_add(times, Ordering::Relaxed);
}

/// How often each was reached, by its number.
pub(crate) fn counts() -> Vec<usize> {
    COUNTS.iter().map(|count| count.load(Ordering::Relaxed)).collect()
}
