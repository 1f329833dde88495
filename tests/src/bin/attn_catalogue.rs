//! The `attn` command with the variants of the catalogue, and those with long hooks.
//!
//! `attn-catalogue cases > catalogue.jsonl` writes a case for each row; `attn-catalogue check catalogue.jsonl` runs
//! them.
#![allow(clippy::print_stdout)] // a command prints its result

use std::process::ExitCode;

use attn_tests::{catalogue, long_hooks};

fn main() -> ExitCode {
    if std::env::args().nth(1).as_deref() != Some("cases") {
        return attn_cli::main_with(&[&catalogue::variants()[..], long_hooks::variants()].concat());
    }
    for case in catalogue::gpu_cases::all(&catalogue::entries()) {
        match serde_json::to_string(&case) {
            Ok(line) => println!("{line}"),
            Err(_) => return ExitCode::FAILURE,
        }
    }
    ExitCode::SUCCESS
}
