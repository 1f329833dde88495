//! `generate "prompt"` streams a text, `generate --serve` serves completions over HTTP.

#![allow(clippy::print_stdout, clippy::print_stderr)]

mod cli;

use std::process::ExitCode;

use clap::Parser as _;

fn main() -> ExitCode {
    match cli::run(&cli::Cli::parse()) {
        Ok(()) => ExitCode::SUCCESS,
        // the reader of the text has closed the pipe
        Err(error) if is_closed_pipe(&error) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {}", words(&error));
            ExitCode::FAILURE
        }
    }
}

/// An error with its causes. Many errors say what their causes say, which is not said again.
fn words(error: &anyhow::Error) -> String {
    let mut words = error.to_string();
    for cause in error.chain().skip(1).map(ToString::to_string) {
        if !words.contains(&cause) {
            words = format!("{words}: {cause}");
        }
    }
    words
}

fn is_closed_pipe(error: &anyhow::Error) -> bool {
    error.downcast_ref::<std::io::Error>().is_some_and(|error| error.kind() == std::io::ErrorKind::BrokenPipe)
}

#[cfg(test)]
mod tests {
    use anyhow::Context as _;

    use super::*;

    #[test]
    fn a_cause_is_said_once() {
        let source = || std::io::Error::other("no space");
        let error = generate::Error::Io { file: "a.gguf".into(), source: source() };
        let error = Err::<(), _>(error).context("the model is not loaded").expect_err("an error");
        assert_eq!(words(&error), "the model is not loaded: a.gguf: no space");
        let error = Err::<(), _>(source()).context("the server failed").expect_err("an error");
        assert_eq!(words(&error), "the server failed: no space");
    }
}
