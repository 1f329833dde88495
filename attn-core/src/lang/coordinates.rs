//! Coordinates of rows, keys and logits, as hooks see them. All are `i32` and logical; pages of a KV cache are never
//! visible.

use std::ops::Deref;

/// One query row: a (request, query token, query head) triple.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RowIndex {
    /// Request within the batch.
    pub batch: i32,
    /// Query row within the request's queries, `0..qo_len`.
    pub qo_row: i32,
    /// Absolute position in the sequence: `qo_row + kv_len - qo_len`.
    pub qo_pos: i32,
    /// Index into the packed query tensor.
    pub qo_token: i32,
    /// Query head.
    pub qo_head: i32,
    /// KV head that serves this query head.
    pub kv_head: i32,
    /// Queries of the request.
    pub qo_len: i32,
    /// Keys of the request.
    pub kv_len: i32,
}

/// One logit: a query row and a key. Derefs to its [`RowIndex`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LogitIndex {
    /// The query row.
    pub row: RowIndex,
    /// Absolute position of the key in the sequence, `0..kv_len`.
    pub kv_pos: i32,
    /// Index into packed key tensors: tokens of the requests before this one, plus `kv_pos`.
    pub kv_token: i32,
    /// With a key list (`kv_list_len`): the position of the key's block in the list, the `n` of
    /// [`kv_list_block`](super::AttentionVariant::kv_list_block). 0 without a list.
    pub kv_slot: i32,
}

impl Deref for LogitIndex {
    type Target = RowIndex;
    fn deref(&self) -> &RowIndex {
        &self.row
    }
}

/// One key (or value) row.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct KvIndex {
    /// Request within the batch.
    pub batch: i32,
    /// Absolute position of the key in the sequence.
    pub kv_pos: i32,
    /// Index into packed key tensors. In an append (`append_paged`) the row among the new keys.
    pub kv_token: i32,
    /// KV head.
    pub kv_head: i32,
    /// Keys of the request.
    pub kv_len: i32,
}
