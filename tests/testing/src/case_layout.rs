//! How a case lays its keys out: layouts, levels, pools, orders and lengths.

use serde::{Deserialize, Serialize};

/// The layout of keys.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum LayoutKind {
    /// Packed tensors of (tokens, heads, head_dim).
    #[default]
    Ragged,
    /// Pools of pages, with a page table of compressed rows.
    Paged,
    /// Pools of pages, with a block table of padded rows.
    BlockTable,
    /// Pools of pages, shared by neighbouring requests along [`levels`](crate::Case::levels).
    Cascade,
    /// Packed tensors, whose keys neighbouring requests share along [`levels`](crate::Case::levels).
    RaggedCascade,
}

impl LayoutKind {
    /// Whether keys are in pages.
    #[must_use]
    pub fn paged(self) -> bool {
        !matches!(self, LayoutKind::Ragged | LayoutKind::RaggedCascade)
    }

    /// Whether neighbouring requests share keys.
    #[must_use]
    pub fn levels(self) -> bool {
        matches!(self, LayoutKind::Cascade | LayoutKind::RaggedCascade)
    }
}

/// A shared level of a cascade.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct LevelCase {
    /// Requests of each group of neighbours; they sum to the requests of the case.
    pub groups: Vec<u32>,
    /// Keys of each group.
    pub kv_lens: Lens,
    /// The page size in keys, a multiple of the case's, which is the default.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub page_size: Option<u32>,
}

/// How keys and values share memory.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Pool {
    /// Separate tensors.
    #[default]
    Split,
    /// One tensor with the keys, then the values of each page, (pages, 2, ..), or of each token for ragged keys.
    Fused,
    /// Separate tensors with 16 elements of padding behind each row of a head, and behind each page or token.
    Padded,
    /// One tensor with queries, keys and values of each token, as one projection writes them: (tokens, qo_heads + 2
    /// kv_heads, head_dim). Only for ragged keys in the order NHD. Queries have the strides of such a tensor too.
    Packed,
}

/// The order of a page's dimensions in memory.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "UPPERCASE")]
pub enum Order {
    /// (slots, heads, head_dim).
    #[default]
    Nhd,
    /// (heads, slots, head_dim).
    Hnd,
}

/// Lengths: a list, or `{"repeat": [count, length]}`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(
    untagged,
    deny_unknown_fields,
    expecting = "lengths are a list of whole numbers from 0 to 4294967295, or {\"repeat\": [count, length]}"
)]
pub enum Lens {
    /// One length a request.
    List(Vec<u32>),
    /// The same length for all requests.
    Repeat {
        /// The number of requests, and their length.
        repeat: [u32; 2],
    },
}

impl Lens {
    /// The lengths, one a request.
    #[must_use]
    pub fn to_vec(&self) -> Vec<u32> {
        match self {
            Lens::List(lens) => lens.clone(),
            Lens::Repeat { repeat: [count, len] } => vec![*len; *count as usize],
        }
    }

    /// The number of requests.
    #[must_use]
    pub fn requests(&self) -> usize {
        match self {
            Lens::List(lens) => lens.len(),
            Lens::Repeat { repeat: [count, _] } => *count as usize,
        }
    }
}
