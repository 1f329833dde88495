//! What a sequence no longer has of its tokens.

/// Pages that were released, and whether they were taken out of the page table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Gone {
    /// Tokens before this position are all there, and in their places.
    pub(super) first: usize,
    /// The queries of a sequence that is at least this long do not see what is gone.
    pub(super) least_len: usize,
    /// Tokens from `first` on have moved forward.
    pub(super) moved: bool,
}
