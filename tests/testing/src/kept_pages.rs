//! The pages that a case reads, where it reads only some of each request, as Quest does.

use serde::{Deserialize, Serialize};

/// The pages that a case reads: `{"page": 16, "keep": 0.25}`. The variant has a `page_list` that is large enough, and
/// its lists are filled with these pages.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct KeptPages {
    /// The page size of the list in keys.
    pub page: u32,
    /// The fraction of a request's pages that is read, at least one page.
    pub keep: f64,
    /// Whether KV heads share their lists.
    #[serde(default)]
    pub heads: ListsOf,
}

/// Which lists of pages are the same.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ListsOf {
    /// All KV heads of a request read the same pages.
    #[default]
    Shared,
    /// Each KV head reads pages of its own.
    Own,
}
