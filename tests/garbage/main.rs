//! Garbage: whatever an interface reads is refused by a typed error or accepted, and neither panics, nor hangs, nor
//! takes all memory.
//!
//! Each target takes bytes, which a mutator makes from its corpus, and checks what it can of results. A run without
//! variables has a fixed seed and takes a few seconds. `ATTN_FUZZ_SECONDS=600` runs each target for that long, from
//! `ATTN_FUZZ_SEED` or a seed of the clock, which is printed. An input that fails is written to
//! `target/fuzz-failures/TARGET`, or to the folder in `ATTN_FUZZ_SAVE`; one that ends the process, by its stack or its
//! memory, is there as `running`. Once it lies in `tests/data/fuzz/TARGET`, it is a case of every run.
//!
//! `tests/fuzz` has the same targets for libFuzzer, which needs a nightly toolchain. `ATTN_FUZZ_CORPUS` names a folder
//! to which a run writes the corpora. What libFuzzer found lies in `tests/data/fuzz/TARGET.jsonl`, and is a case of
//! every run; `ATTN_FUZZ_FOUND` names a folder of libFuzzer's corpora, which replace it.

mod bad_input;
mod found;
mod harness;
mod long;
mod mutate;
mod targets;

use harness::{Seen, fuzz};
use targets::{
    batches, cache_entries, case_files, configs, costs, embedded, expressions, macro_input, rust_text, specs, steps,
};

macro_rules! targets {
    ($($test:ident: $target:ident, $rounds:literal;)*) => {$(
        #[test]
        fn $test() {
            fuzz(stringify!($target), &$target::corpus(), $rounds, $target::run);
        }
    )*};
}

targets! {
    expressions_are_parsed_or_refused: expressions, 8000;
    specs_are_built_or_refused: specs, 8000;
    configurations_are_read_or_refused: configs, 4000;
    case_files_are_read_or_refused: case_files, 4000;
    batches_are_valid_or_refused: batches, 60_000;
    steps_make_valid_batches_or_are_refused: steps, 20_000;
    cache_entries_are_whole_or_compiled_again: cache_entries, 8000;
    files_of_costs_are_read_or_refused: costs, 4000;
    embedded_tables_and_logs_are_read_or_ignored: embedded, 20_000;
    macros_expand_or_refuse_rust_text: macro_input, 1500;
    rust_text_gives_variants_or_mistakes: rust_text, 600;
}

/// They are written as bytes, among which a field may slip.
#[test]
fn cases_of_batches_and_steps_are_all_accepted() {
    batches::corpus().iter().for_each(|case| assert_eq!(batches::run(case), Seen::Accepted, "{case:?}"));
    steps::corpus().iter().for_each(|case| assert_eq!(steps::run(case), Seen::Accepted, "{case:?}"));
}
