//! The targets of the garbage tests, for libFuzzer, which follows what each input covers.
#![allow(dead_code, missing_docs)] // their corpora belong to the tests

mod harness {
    /// What a target says of an input.
    #[derive(Clone, Copy, Debug, PartialEq)]
    pub(crate) enum Seen {
        Refused,
        Accepted,
    }
}
#[path = "../../tests/garbage/targets"]
mod targets {
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
}

macro_rules! targets {
    ($($name:ident),*) => {$(
        /// Runs the target of this name.
        pub fn $name(data: &[u8]) {
            targets::$name::run(data);
        }
    )*};
}

targets!(
    batches,
    cache_entries,
    case_files,
    configs,
    costs,
    embedded,
    expressions,
    macro_input,
    rust_text,
    specs,
    steps
);
