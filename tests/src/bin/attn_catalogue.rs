//! The `attn` command with the variants of the catalogue: `attn-catalogue cases > catalogue.jsonl` writes a case for each row, and
//! `attn-catalogue check catalogue.jsonl` runs them.
#![allow(clippy::print_stdout)] // a command speaks

use std::process::ExitCode;

use attn_tests::catalogue;

fn main() -> ExitCode {
    if std::env::args().nth(1).as_deref() != Some("cases") {
        return attn_cli::main_with(&catalogue::variants());
    }
    for case in catalogue::cases::gpu(&catalogue::entries()) {
        match serde_json::to_string(&case) {
            Ok(line) => println!("{line}"),
            Err(_) => return ExitCode::FAILURE,
        }
    }
    ExitCode::SUCCESS
}
