//! Tasks of this repository: `cargo xtask --help` lists them.
#![allow(clippy::print_stdout, clippy::print_stderr)] // a command-line tool prints

mod aot;
mod book;
mod browser;
mod bundle;
mod cubins;
mod deny;
mod install_c;
mod mutants;
mod nvrtc;
mod paths;
mod plan_instructions;
mod py;
mod report;
mod skips;
mod test;
mod variants;
mod wheel;

use std::process::ExitCode;

use anyhow::Result;
use clap::{Parser, Subcommand};
use xshell::Shell;

#[derive(Parser)]
#[command(name = "xtask", about = "Tasks of attn-rs")]
struct Cli {
    #[command(subcommand)]
    task: Task,
}

#[derive(Subcommand)]
enum Task {
    /// Tests the library, without a GPU: unit and integration tests, doctests. `--ci` adds bindings, tools, examples, a
    /// build with embedded kernels and the tests that take a minute.
    Test(test::Args),
    /// Makes a folder that checks and times the kernels on a machine with nothing but a driver.
    GpuBundle(bundle::Args),
    /// Writes the tables of README and the book: variants from the registry, timings from benches/results/*.jsonl.
    BenchReport(report::Args),
    /// Builds the book into target/book.
    Book,
    /// Builds the C library, and installs it with its header and a file for pkg-config.
    InstallC(install_c::Args),
    /// Builds the Python wheel, installs it in a fresh environment, and runs its tests.
    Py(py::Args),
    /// Prints hashes of every cubin of the compile matrix, or compares them with another commit's.
    Cubins(cubins::Args),
    /// Runs the tests of CI with mistakes in kernels and in Rust, each of which has to make a test fail.
    Mutants(mutants::Args),
    /// Checks licences and sources of dependencies, and with --advisories what is known about their faults.
    Deny(deny::Args),
    /// Counts the instructions of planning, and compares them with benches/results/plan-instructions.jsonl.
    PlanInstructions(plan_instructions::Args),
}

fn main() -> ExitCode {
    match run(&Cli::parse()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("xtask: {error:#}");
            ExitCode::FAILURE
        }
    }
}

fn run(cli: &Cli) -> Result<()> {
    let sh = Shell::new()?;
    let root = paths::root();
    sh.change_dir(&root);
    match &cli.task {
        Task::Test(args) => test::run(&sh, &root, args),
        Task::GpuBundle(args) => bundle::run(&sh, &root, args),
        Task::BenchReport(args) => report::run(&sh, &root, args),
        Task::Book => book::run(&sh, &root),
        Task::InstallC(args) => install_c::run(&sh, &root, args),
        Task::Py(args) => py::run(&sh, &root, args),
        Task::Cubins(args) => cubins::run(&sh, &root, args),
        Task::Mutants(args) => mutants::run(&sh, &root, args),
        Task::Deny(args) => deny::run(&sh, &root, args),
        Task::PlanInstructions(args) => plan_instructions::run(&sh, &root, args),
    }
}
