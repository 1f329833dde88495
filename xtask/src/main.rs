//! Chores of this repository: `cargo xtask test`, `cargo xtask gpu-bundle`, `cargo xtask bench-report`, `cargo xtask costs`,
//! `cargo xtask plan-instructions`.
#![allow(clippy::print_stdout, clippy::print_stderr)] // a tool speaks to a person

mod aot;
mod bundle;
mod costs;
mod nvrtc;
mod plan_instructions;
mod report;
mod test;
mod variants;

use std::{
    path::{Path, PathBuf},
    process::ExitCode,
};

use anyhow::{Context as _, Result};
use clap::{Parser, Subcommand};
use xshell::Shell;

#[derive(Parser)]
#[command(name = "xtask", about = "Chores of attn-rs")]
struct Cli {
    #[command(subcommand)]
    task: Task,
}

#[derive(Subcommand)]
enum Task {
    /// Everything that needs no GPU: unit and integration tests, the leg without inventory, doctests, a
    /// build with embedded kernels.
    Test(test::Args),
    /// One folder that checks and times the kernels on a machine with a driver and nothing else.
    GpuBundle(bundle::Args),
    /// Writes the tables of README: variants from the registry, timings from benches/results/*.jsonl.
    BenchReport(report::Args),
    /// Writes the table of what work costs kernels from attn-kernels/costs/*.jsonl.
    Costs(costs::Args),
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
    let root = root();
    sh.change_dir(&root);
    match &cli.task {
        Task::Test(args) => test::run(&sh, &root, args),
        Task::GpuBundle(args) => bundle::run(&sh, &root, args),
        Task::BenchReport(args) => report::run(&root, args),
        Task::Costs(args) => costs::run(&root, args),
        Task::PlanInstructions(args) => plan_instructions::run(&sh, &root, args),
    }
}

/// The workspace.
fn root() -> PathBuf {
    let here = Path::new(env!("CARGO_MANIFEST_DIR"));
    here.parent().unwrap_or(here).to_owned()
}

/// Where cargo puts what it builds.
fn target_dir(root: &Path) -> Result<PathBuf> {
    match std::env::var_os("CARGO_TARGET_DIR") {
        Some(dir) => std::path::absolute(Path::new(&dir)).context("CARGO_TARGET_DIR"),
        None => Ok(root.join("target")),
    }
}
