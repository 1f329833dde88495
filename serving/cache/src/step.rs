//! Steps: the arrays of one launch over a set of sequences.

mod arrays;
mod build;
mod capacity;
mod cost;
mod groups;
mod level_tables;
mod levels;
mod source;

pub use arrays::StepArrays;
pub use capacity::{StepCapacity, StepSections};
pub use cost::{CascadeCost, ReadCost, Segment};
pub use source::{BlockSource, BlockTables};

use level_tables::Levels;

use crate::pages::{Pages, StepCopies};
use crate::{CacheError, PageId};

/// The arrays that a step of an engine gives to the kernels, in memory of a fixed size and address.
///
/// [`Step::build`] writes them, the engine enqueues the page copies, the append and the attention, and [`Step::commit`]
/// says that it has. A plan for [CUDA graphs](https://developer.nvidia.com/blog/cuda-graphs/) takes
/// [`Step::padded`], whose lengths never change.
///
/// Requests are in the order of the source. [`Step::group_prefixes`] instead puts sequences that share pages beside
/// each other, which [`Step::choose_levels`] asks for; [`Step::order`] says where each went.
#[derive(Debug)]
pub struct Step {
    capacity: StepCapacity,
    sections: StepSections,
    /// `None` for plain tables.
    copies: Option<StepCopies>,
    page_size: usize,
    num_pages: usize,
    /// All arrays of i32, one after the other.
    words: Box<[i32]>,
    slots: Box<[i64]>,
    order: Vec<usize>,
    /// Of the sequences that were built, sorted.
    versions: Vec<u64>,
    requests: usize,
    tokens: usize,
    entries: usize,
    levels: Levels,
    grouped: bool,
}

impl Step {
    /// The step of sequences over a pool.
    ///
    /// # Errors
    ///
    /// [`CacheError::Capacity`] for arrays of more than 2^28 elements, which would take more than 1 GiB of memory.
    pub fn new(pages: &Pages, capacity: StepCapacity) -> Result<Self, CacheError> {
        let step = Step::for_tables(pages.count(), pages.page_size(), capacity)?;
        Ok(Step { copies: Some(StepCopies::new(pages, capacity.sequences)), ..step })
    }

    /// The step of plain page tables over a pool of `num_pages` pages of `page_size` tokens, which someone else
    /// manages.
    ///
    /// # Errors
    ///
    /// [`CacheError::PoolShape`], and [`CacheError::Capacity`] for arrays of more than 2^28 elements.
    pub fn for_tables(num_pages: usize, page_size: usize, capacity: StepCapacity) -> Result<Self, CacheError> {
        let shape = CacheError::PoolShape { count: num_pages, page_size };
        if page_size == 0 || [num_pages, page_size].iter().any(|&n| i32::try_from(n).is_err()) {
            return Err(shape);
        }
        let sections = capacity.sections()?;
        let mut step = Step {
            words: vec![0; sections.words()].into(),
            slots: vec![-1; capacity.tokens].into(),
            capacity,
            sections,
            copies: None,
            page_size,
            num_pages,
            order: Vec::with_capacity(capacity.sequences),
            versions: Vec::with_capacity(capacity.sequences),
            requests: 0,
            tokens: 0,
            entries: 0,
            levels: Levels::default(),
            grouped: false,
        };
        step.pad(capacity.tokens, capacity.pages);
        Ok(step)
    }

    /// Puts sequences that share pages beside each other, in all builds from now on.
    #[must_use]
    pub fn group_prefixes(self) -> Self {
        Step { grouped: true, ..self }
    }

    /// The capacity.
    #[must_use]
    pub fn capacity(&self) -> StepCapacity {
        self.capacity
    }

    /// For each request of the step, the index of its sequence in the source. Queries are in this order.
    #[must_use]
    pub fn order(&self) -> &[usize] {
        &self.order
    }

    /// Copies of pages `[from, to]` to make before anything is written (`ops::copy_pages`). They may run at the same
    /// time: no page is read by one and written by another. They stay until [`Step::commit`]. Where several steps over
    /// a pool are in flight, they run in the order in which they were built: each copy is in one of them.
    #[must_use]
    pub fn copies(&self) -> &[[PageId; 2]] {
        self.copies.as_ref().map_or(&[], StepCopies::pairs)
    }

    /// All arrays of i32 in one piece of memory, for a single upload of the same size each step.
    /// [`Step::sections`] says where each is.
    #[must_use]
    pub fn words(&self) -> &[i32] {
        &self.words
    }

    /// Where the arrays are in [`Step::words`].
    #[must_use]
    pub fn sections(&self) -> &StepSections {
        &self.sections
    }

    /// All slots, of the capacity's length; -1 past the tokens of the step.
    #[must_use]
    pub fn padded_slots(&self) -> &[i64] {
        &self.slots
    }

    /// The launches of the step are enqueued: its copies are done with, and the new tokens of its sequences are
    /// written. The source may have other sequences, and in another order. A sequence whose tokens have changed since
    /// the step was built has written nothing: all of its new tokens are in its next step.
    pub fn commit<S: BlockSource + ?Sized>(&mut self, source: &mut S) {
        if let Some(copies) = &mut self.copies {
            copies.finish();
        }
        for sequence in 0..source.sequences() {
            if self.versions.binary_search(&source.version(sequence)).is_ok() {
                source.commit_sequence(sequence);
            }
        }
        self.versions.clear();
        source.commit();
    }
}

#[cfg(test)]
mod tests;
