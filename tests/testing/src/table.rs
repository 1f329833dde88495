//! What tensor parameters of masks hold, by name. `tables.rs` makes them.

use serde::{Deserialize, Serialize};

/// What a tensor parameter over integers or bools holds, by the lengths of a batch.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Table {
    /// `[qo_tokens]`: the document of each query, ascending over all requests.
    QueryDocuments,
    /// `[kv_tokens]`: the document of each key.
    KeyDocuments,
    /// `[qo_tokens]`: the position at which the document of each query starts.
    QueryDocumentStarts,
    /// `[kv_tokens]`: the position at which the document of each key starts.
    KeyDocumentStarts,
    /// `[kv_tokens]`: one past the last position of the document of each key.
    KeyDocumentEnds,
    /// `[kv_tokens]`: one past the last position before the diagonal, in each other document; else the start of its
    /// document.
    KeysBeforeDiagonal,
    /// `[kv_tokens]`: the keys of the request.
    KvLens,
    /// `[kv_tokens]`: 0.
    Zeros,
    /// `[qo_tokens]`: the first position of a window of each query's own, of 0 to 600 keys; every 16th is empty.
    WindowStarts,
    /// `[qo_tokens]`: one past the last position of that window.
    WindowEnds,
    /// `[qo_tokens]`: the image of each query, and -1 for text.
    QueryImages,
    /// `[kv_tokens]`: the image of each key, and -1 for text.
    KeyImages,
    /// `[qo_tokens]` bools: whether each query is global: the first four of a request, and one in 64.
    GlobalQueries,
    /// `[kv_tokens]` bools: whether each key is global.
    GlobalKeys,
    /// `[batch]`: the length of a prefix, up to all keys.
    Prefixes,
    /// `[qo_tokens]`: the position of the delimiter that opens the item of each query, behind the prefix.
    ItemStarts,
    /// `[documents + 1]`: positions at which documents start, the same in each request; those past the
    /// fourth are empty.
    SharedOffsets,
    /// `[documents]`: the document that is the prefix of each; every third is its own.
    SharedPrefixes,
    /// `[qo_tokens]`: the document of each query by `shared_offsets`.
    SharedDocuments,
    /// `[qo_tokens, width]` bools: the nodes of a draft tree that each query sees, with parents among earlier nodes.
    Ancestors,
    /// `[batch, qo_heads, q_blocks, kv_blocks]` bools: a router's choice of runs of blocks, and sometimes of none.
    Blocks,
    /// `[batch]`: the first bit of each request's mask, masks one after the other.
    MaskOffsets,
    /// `[qo_tokens]`: positions of queries in a sequence from which keys were dropped.
    QueryPositions,
    /// `[kv_tokens]`: positions of keys in that sequence.
    KeyPositions,
}
