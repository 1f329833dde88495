//! The systems around the attention kernels of a serving engine: a pool of pages, a radix tree of prefixes, sequences,
//! and the arrays of each step.
//!
//! - [`Pages`] counts the references of the pages of a KV cache (PagedAttention).
//! - [`Prefix`] finds the longest cached prefix of a prompt (RadixAttention), and evicts what no one uses.
//! - [`Sequence`] is the text of one request: it grows, forks with copy-on-write, shrinks, forgets what is outside of a
//!   window, and moves to host memory and back.
//! - [`Step`] makes the page tables, slot mappings, page copies and cascade levels of a set of sequences, in memory of
//!   a fixed size, for CUDA graphs. [`BlockSource`] gives the same to an engine with a page manager of its own.
//!
//! Nothing here touches keys and values. The crate decides which page holds what; `attn::ops` moves the data. `attn`
//! does not export it: it is for engines that have no page manager, and kernels take the tables of any.
//!
//! ```
//! use attn_cache::{Namespace, Pages, Prefix, Sequence, Step, StepCapacity};
//!
//! let pages = Pages::new(64, 16)?; // 64 pages of 16 tokens
//! let prefix = Prefix::new(&pages);
//! let prompt: Vec<u32> = (0..40).collect();
//!
//! // the first request computes all of its prompt, and gives it to the tree
//! let mut first = Sequence::new(&pages);
//! first.append(prompt.len())?;
//! let capacity = StepCapacity { sequences: 8, tokens: 256, pages: 64, pages_per_sequence: 16, levels: 2 };
//! let mut step = Step::new(&pages, capacity)?;
//! let mut sequences = [first];
//! step.build(&sequences[..])?;
//! // here an engine copies `step.copies()`, appends keys and values at `arrays.slots`, and runs `arrays.batch()`
//! assert_eq!(step.arrays().batch().validate()?.kv_len(0), 40);
//! step.commit(&mut sequences[..]);
//! sequences[0].cache(&prefix, &Namespace::default(), &prompt)?;
//!
//! // the second request finds the whole pages of the prompt; at least one token is left to compute
//! let hit = prefix.lookup(&Namespace::default(), &prompt);
//! assert_eq!(hit.tokens, 32);
//! let mut second = Sequence::with_prefix(&pages, hit);
//! second.append(prompt.len() - second.len())?;
//! assert_eq!(pages.stats().used, 4); // two shared pages, and one of each request
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! # Threads
//!
//! Every type is `Send` and `Sync`. References of pages are atomic counters, and the free list and the tree are behind
//! a mutex each, so handles may be dropped on any thread. Counts that are read while other threads change them are a
//! snapshot: [`Prefix::reserve`] may then evict and still fail. An engine that schedules on one thread never sees that.

#![forbid(unsafe_code)]

mod error;
mod namespace;
mod pages;
mod prefix;
mod sequence;
mod step;

pub use error::{CacheError, OutOfPages};
pub use namespace::Namespace;
pub use pages::{PageRef, PageRefs, PageStats, Pages};
pub use prefix::{Evicted, EvictionPolicy, Hit, Inserted, LeafInfo, Lru, Prefix, PrefixLock, PrefixStats, Remap};
pub use sequence::{Sequence, Slots, Swap};
pub use step::{
    BlockSource, BlockTables, CascadeCost, ReadCost, Segment, Step, StepArrays, StepCapacity, StepSections,
};

/// A token of a vocabulary.
pub type Token = u32;

/// The number of a page in its pool, as page tables of [`attn_core::batch`] have it. In the table of a sequence,
/// [`RELEASED`] marks an entry whose page is no longer held.
pub type PageId = i32;

/// The entry of a page that a sequence has released. A [`Step`] writes another page of the sequence in its place:
/// masked keys are read and have no weight, so their memory must hold finite numbers.
pub const RELEASED: PageId = -1;
