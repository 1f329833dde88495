//! Index spaces. The coordinates of hooks count different things: `qo_pos` and `kv_pos` within the sequence of a
//! request, `qo_row` within its queries, `qo_token` and `kv_token` over the tokens of all requests, `qo_head`,
//! `kv_head` and `batch` over heads and requests. What mixes two of them is right for some batches and wrong for
//! others, so `#[attention_variant]` refuses a comparison of two spaces, a difference between a query and a key of
//! two spaces, and an index into an axis of another space.

/// An index as a plain number, which is compared with any other: `space::plain(at.qo_token) >= at.kv_pos`. On both
/// sides it is `x` itself.
#[must_use]
pub const fn plain(x: i32) -> i32 {
    x
}
