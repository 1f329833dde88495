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

use harness::fuzz;
use targets::{
    batches, cache_entries, case_files, configs, costs, embedded, expressions, macro_input, rust_text, specs, steps,
};

#[test]
fn expressions_are_parsed_or_refused() {
    fuzz("expressions", &expressions::corpus(), 8000, expressions::run);
}

#[test]
fn specs_are_built_or_refused() {
    fuzz("specs", &specs::corpus(), 8000, specs::run);
}

#[test]
fn configurations_are_read_or_refused() {
    fuzz("configs", &configs::corpus(), 4000, configs::run);
}

#[test]
fn case_files_are_read_or_refused() {
    fuzz("case_files", &case_files::corpus(), 4000, case_files::run);
}

#[test]
fn batches_are_valid_or_refused() {
    fuzz("batches", &batches::corpus(), 60_000, batches::run);
}

#[test]
fn steps_make_valid_batches_or_are_refused() {
    fuzz("steps", &steps::corpus(), 20_000, steps::run);
}

#[test]
fn cache_entries_are_whole_or_compiled_again() {
    fuzz("cache_entries", &cache_entries::corpus(), 8000, cache_entries::run);
}

#[test]
fn files_of_costs_are_read_or_refused() {
    fuzz("costs", &costs::corpus(), 4000, costs::run);
}

#[test]
fn embedded_tables_and_logs_are_read_or_ignored() {
    fuzz("embedded", &embedded::corpus(), 20_000, embedded::run);
}

#[test]
fn macros_expand_or_refuse_rust_text() {
    fuzz("macro_input", &macro_input::corpus(), 1500, macro_input::run);
}

#[test]
fn rust_text_gives_variants_or_mistakes() {
    fuzz("rust_text", &rust_text::corpus(), 600, rust_text::run);
}
