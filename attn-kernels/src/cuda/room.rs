//! Plans whose batch changes in place: what they keep so that nothing that was captured of them moves.

use attn_core::batch::{Batch, BatchCapacity, BatchError, Layout};

use super::{
    Attention, CudaError, Family, Plan, Stream,
    device_plan::OnDevice,
    work::{Blob, Counts, Rule, Scratch, Work},
};

/// Room for batches up to some size, and the memory that planning into it takes.
#[derive(Debug)]
pub(super) struct Room {
    pub(super) capacity: BatchCapacity,
    pub(super) counts: Counts,
    /// Fits the tensors of every batch within the capacity.
    pub(super) largest: Layout,
    pub(super) rule: Rule,
    /// What planning on the device takes, once it has been asked for.
    pub(super) on_device: Option<OnDevice>,
    /// Whether the batch is one that the device has planned, or will when a stream gets there: nobody on the host knows its lengths.
    pub(super) batch_is_on_device: bool,
    /// Whether a capture has an update on the device: its replays bring such a batch back.
    pub(super) is_captured_on_device: bool,
    /// The next batch, until it is known that there is nothing wrong with it.
    next: Layout,
    work: Work,
    scratch: Scratch,
    blob: Blob,
}

impl Room {
    pub(super) fn new(capacity: &BatchCapacity, counts: Counts, rule: Rule, work: Work) -> Result<Self, CudaError> {
        Ok(Room {
            capacity: *capacity,
            counts,
            largest: capacity.largest()?,
            rule,
            on_device: None,
            batch_is_on_device: false,
            is_captured_on_device: false,
            next: Layout::default(),
            blob: Blob::of(&work),
            work,
            scratch: Scratch::default(),
        })
    }

    /// The list that was made last, as it is uploaded.
    pub(super) fn pack(&mut self, layout: &Layout) -> Result<&[u8], CudaError> {
        self.blob.repack_within(&self.counts, layout, &self.work)?;
        Ok(self.blob.bytes())
    }
}

impl Plan {
    /// Gives a plan that was made with a capacity another batch, in the order of the stream: what is launched there afterwards runs that batch, and
    /// so does what was captured of this plan before. The launches of a captured run are as many as the capacity asks for; requests without
    /// queries, and what the batch does not use, cost next to nothing and write nothing.
    ///
    /// The workspace's lists are overwritten where they are: replay on the same stream, or order the streams with events, so that no replay
    /// runs at the same time. Nothing is allocated once batches have been as large as this one, but for a union, for a cascade, and for a variant with
    /// tensors over the lengths of a batch.
    ///
    /// # Errors
    ///
    /// A plan without capacity or that is stale, a batch that is not sound or past the capacity, tensors of the variant whose content is
    /// another for this batch, a list of keys for which there is no room, a stream that is being captured. Nothing is changed then: the plan still is of the batch before.
    pub fn update(&mut self, stream: &Stream, batch: &Batch<'_>) -> Result<(), CudaError> {
        let attention = &*self.attention.inner;
        attention.device.check_same("stream", stream.device())?;
        if !self.is_current() {
            return Err(CudaError::StalePlan);
        }
        let Some(room) = self.room.as_deref_mut() else { return Err(BatchError::NoCapacity.into()) };
        stream.refuse_capture("update a plan")?;
        batch.validate_into(&mut room.next)?;
        if room.next.has_levels() {
            let next = std::mem::take(&mut room.next);
            room.next = self.attention.levels_within(next, &room.capacity, &room.rule)?;
        }
        room.capacity.check(&room.next)?;
        self.attention.check_family(&room.next, Family::of(self.arms[0].kernel.cell()))?; // there is one arm at least
        let Room { next, work, scratch, rule, .. } = &mut *room;
        let layers = self.layers.iter().map(Attention::variant);
        if self.attention.depends_on_lengths() {
            let bound = self.attention.bound(next)?;
            let mut arms = self.arms.iter().zip(bound.arms());
            if !arms.all(|(arm, variant)| arm.args.are_of(&variant)) {
                return Err(CudaError::CapturedTensors);
            }
            self.layers.iter().try_for_each(|layer| layer.check_own_args(next))?;
            work.rebuild(scratch, rule, &bound, layers, next, attention.heads)?;
        } else {
            work.rebuild(scratch, rule, &attention.variant, layers, next, attention.heads)?;
        }
        room.blob.repack_within(&room.counts, &room.next, &room.work)?;
        self.memory.turn_of(self.generation)?.overwrite(stream, room.blob.bytes())?;
        std::mem::swap(&mut self.layout, &mut room.next);
        room.batch_is_on_device = room.is_captured_on_device;
        self.counts = room.work.counts();
        self.stream = Some(stream.as_raw() as usize);
        Ok(())
    }

    /// The largest batch that the plan may be given by [`Plan::update`]; `None` for a plan without capacity.
    #[must_use]
    pub fn capacity(&self) -> Option<&BatchCapacity> {
        self.room.as_deref().map(|room| &room.capacity)
    }
}
