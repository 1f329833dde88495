//! What reads input from elsewhere. Each target has a corpus of sound inputs.

pub(crate) mod batches;
pub(crate) mod cache_entries;
pub(crate) mod case_files;
pub(crate) mod configs;
pub(crate) mod costs;
pub(crate) mod embedded;
pub(crate) mod expressions;
pub(crate) mod macro_input;
mod numbers;
pub(crate) mod rust_text;
pub(crate) mod specs;
pub(crate) mod steps;
