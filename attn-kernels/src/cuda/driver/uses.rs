//! Which streams used a piece of memory, and which of them the next user has to wait for.
//!
//! The rule is that of readers and writers. A read comes after the last write; a write comes after the last write and
//! after the reads since. Work of one stream is in order by itself. For another stream the caller makes the next user
//! wait: for an event that is recorded at that moment, and so covers all earlier work of the previous user. A program
//! with one stream never waits.

/// What work does with memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(in crate::cuda) enum Access {
    Read,
    Write,
}

/// A stream, as far as order is concerned.
pub(super) trait Ordered: Clone {
    /// The number of the stream; work with the same number is in order.
    fn id(&self) -> u64;
}

/// The streams that used a piece of memory, as far as later users have to wait for them.
#[derive(Debug)]
pub(super) struct Uses<S> {
    /// The stream of the last write.
    writer: Option<S>,
    /// The streams of reads since then. The writer's own reads are not listed.
    readers: Vec<S>,
}

impl<S> Default for Uses<S> {
    fn default() -> Self {
        Uses { writer: None, readers: Vec::with_capacity(READERS) }
    }
}

/// Streams that read at the same time without an allocation for one more.
const READERS: usize = 4;

impl<S: Ordered> Uses<S> {
    /// Whether a use needs neither a wait nor a change here.
    pub(super) fn covers(&self, stream: &S, access: Access) -> bool {
        let is = |user: &S| user.id() == stream.id();
        match access {
            Access::Read => self.writer.iter().chain(&self.readers).any(is),
            Access::Write => self.writer.as_ref().is_some_and(is) && self.readers.is_empty(),
        }
    }

    /// Records a use. `wait_for` makes the stream wait for another one; where it fails, nothing is recorded.
    pub(super) fn record<E>(
        &mut self,
        stream: &S,
        access: Access,
        mut wait_for: impl FnMut(&S) -> Result<(), E>,
    ) -> Result<(), E> {
        if self.covers(stream, access) {
            return Ok(());
        }
        match access {
            Access::Read => {
                self.writer.as_ref().map_or(Ok(()), &mut wait_for)?;
                self.readers.push(stream.clone());
            }
            Access::Write => {
                // readers have waited for the write, but not for the writer's own reads since
                let mut others = self.readers.iter().chain(&self.writer).filter(|user| user.id() != stream.id());
                others.try_for_each(&mut wait_for)?;
                self.clear();
                self.writer = Some(stream.clone());
            }
        }
        Ok(())
    }

    /// Forgets all users: their work has finished.
    pub(super) fn clear(&mut self) {
        self.writer = None;
        self.readers.clear();
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::{Access::*, *};

    #[derive(Clone, Debug, PartialEq)]
    struct Named {
        id: u64,
    }

    impl Ordered for Named {
        fn id(&self) -> u64 {
            self.id
        }
    }

    fn stream(id: u64) -> Named {
        Named { id }
    }

    /// Records a use and returns the streams that it waits for.
    fn waits(uses: &mut Uses<Named>, stream: &Named, access: Access) -> Vec<u64> {
        let mut ids = Vec::new();
        let record = uses.record(stream, access, |other| {
            ids.push(other.id);
            Ok::<(), ()>(())
        });
        record.expect("waits succeed");
        assert!(uses.covers(stream, access), "{stream:?} {access:?} is recorded");
        ids
    }

    #[test]
    fn one_stream_never_waits() {
        let (mut uses, a) = (Uses::default(), stream(1));
        for access in [Read, Write, Read, Read, Write, Write] {
            assert_eq!(waits(&mut uses, &a, access), [0u64; 0]);
        }
    }

    #[test]
    fn a_second_stream_waits_once_and_readers_do_not_wait_for_each_other() {
        let (mut uses, [a, b, c]) = (Uses::default(), [1, 2, 3].map(stream));
        assert_eq!(waits(&mut uses, &a, Write), [0u64; 0]);
        assert_eq!(waits(&mut uses, &b, Read), [1]);
        assert_eq!(waits(&mut uses, &b, Read), [0u64; 0]);
        assert_eq!(waits(&mut uses, &c, Read), [1]);
        assert_eq!(waits(&mut uses, &a, Read), [0u64; 0]);
        assert_eq!(waits(&mut uses, &a, Write), [2, 3]);
        assert_eq!(waits(&mut uses, &b, Write), [1]);
        assert_eq!(waits(&mut uses, &c, Read), [2]);
        assert_eq!(waits(&mut uses, &b, Read), [0u64; 0]);
        assert_eq!(waits(&mut uses, &c, Write), [2], "for the read after the write");
    }

    #[test]
    fn a_write_waits_for_every_reader() {
        let (mut uses, readers) = (Uses::default(), 2 * READERS as u64);
        for reader in 0..readers {
            assert_eq!(waits(&mut uses, &stream(reader), Read), [0u64; 0], "readers do not wait for each other");
        }
        assert_eq!(waits(&mut uses, &stream(99), Write), (0..readers).collect::<Vec<_>>());
    }

    #[test]
    fn a_refused_wait_changes_nothing() {
        let (mut uses, a, b) = (Uses::default(), stream(1), stream(2));
        waits(&mut uses, &a, Write);
        for access in [Read, Write] {
            assert_eq!(uses.record(&b, access, |_| Err("captured")), Err("captured"));
            assert!(uses.covers(&a, Write) && !uses.covers(&b, access));
        }
    }

    #[test]
    fn cleared_memory_waits_for_nothing() {
        let (mut uses, a, b) = (Uses::default(), stream(1), stream(2));
        waits(&mut uses, &a, Write);
        uses.clear();
        assert_eq!(waits(&mut uses, &b, Write), [0u64; 0]);
    }

    /// Random uses by many streams, against clocks that follow order within streams and through waits.
    #[test]
    fn conflicting_uses_are_always_ordered() {
        type Clock = BTreeMap<u64, usize>;
        let mut random = 1u64;
        let mut next = |below: u64| {
            random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            (random >> 33) % below
        };
        for streams in [2, 3, 7] {
            let (mut uses, mut clocks) = (Uses::default(), BTreeMap::<u64, Clock>::new());
            let mut done: Vec<(u64, usize, Access)> = Vec::new();
            for time in 1..1500 {
                let access = if next(4) == 0 { Write } else { Read };
                let id = next(streams);
                let user = stream(id);
                let mut clock = clocks.get(&user.id).cloned().unwrap_or_default();
                for before in waits(&mut uses, &user, access) {
                    for (&of, &at) in &clocks[&before] {
                        let known = clock.entry(of).or_default();
                        *known = at.max(*known);
                    }
                }
                for &(of, at, earlier) in &done {
                    let conflict = earlier == Write || access == Write;
                    let ordered = of == user.id || clock.get(&of).is_some_and(|&known| known >= at);
                    assert!(ordered || !conflict, "{access:?} of {user:?} against {earlier:?} of {of} at {at}");
                }
                clock.insert(user.id, time);
                done.push((user.id, time, access));
                clocks.insert(user.id, clock);
            }
        }
    }
}
