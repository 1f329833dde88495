//! The `attn` command as a library: the instrument. It lists variants, shows their CUDA, compiles, checks and times kernels.
//!
//! A program with variants of its own is the same command with one line: [`main_with`].
//!
//! Each command gives *records* (JSON objects); the `output` module writes them as lines or as a table.
#![allow(clippy::print_stdout, clippy::print_stderr)] // a command speaks

mod bench;
mod calibrate;
mod cases;
mod check;
mod compile;
mod doctor;
mod kernels;
mod list;
mod op_bench;
mod output;
mod serve;
mod source;
mod tiles;

use std::process::ExitCode;

use attn_core::lang::VariantDesc;
use clap::{Args, Parser, Subcommand};

/// Attention variants as Rust, CUDA and cubins: list, show, compile, check, time.
///
/// Records go to stdout, as JSON lines unless stdout is a terminal; messages go to stderr.
#[derive(Parser)]
#[command(name = "attn", version, propagate_version = true)]
struct Cli {
    #[command(flatten)]
    global: Global,
    #[command(subcommand)]
    command: Command,
}

/// What every command takes.
#[derive(Args)]
struct Global {
    /// JSON lines, also on a terminal.
    #[arg(long, global = true, conflicts_with = "table")]
    json: bool,
    /// A table, also where stdout is not a terminal.
    #[arg(long, global = true)]
    table: bool,
    /// Writes the JSON lines to a file instead, and a table to stdout.
    #[arg(long, global = true, value_name = "FILE")]
    out: Option<std::path::PathBuf>,
    /// Threads of the CPU backend and of compilation; all cores unless given.
    #[arg(long, global = true, value_name = "N")]
    threads: Option<usize>,
}

#[derive(Subcommand)]
enum Command {
    /// The registered variants with parameters and hooks, and the cubins embedded in this binary.
    List(list::List),
    /// The CUDA of a variant in a kernel: one self-contained translation unit.
    Source(source::Source),
    /// Compiles kernels: registers, spills, shared memory, size, time.
    Compile(compile::Compile),
    /// Which tiles of a mask are skipped, and which need no mask: counts and a picture.
    Tiles(tiles::Tiles),
    /// Compares results with the f64 reference over a case file or a grid; fails if one is outside tolerance.
    Check(check::Check),
    /// Times the cases of a file, or serves race.py.
    Bench(bench::Bench),
    /// Measures what work costs each kernel on this GPU: rows for the planner's table.
    Calibrate(calibrate::Calibrate),
    /// What this machine has, what is missing, and how to get it.
    Doctor(doctor::Doctor),
}

/// The command, with the stock variants and those that link-time registration finds.
#[must_use]
pub fn main() -> ExitCode {
    main_with(&[])
}

/// The command with further variants.
#[must_use]
pub fn main_with(variants: &[&'static VariantDesc]) -> ExitCode {
    let cli = Cli::parse();
    tracing_subscriber::fmt()
        .with_env_filter(
            tracing_subscriber::EnvFilter::try_from_env("ATTN_LOG")
                .unwrap_or_else(|_| tracing_subscriber::EnvFilter::new("warn")),
        )
        .with_writer(std::io::stderr)
        .without_time()
        .init();
    attn::register_embedded();
    match run(cli, variants) {
        Ok(code) => code,
        Err(error) => {
            eprintln!("attn: {}", causes(&error));
            ExitCode::from(2)
        }
    }
}

fn run(cli: Cli, variants: &[&'static VariantDesc]) -> anyhow::Result<ExitCode> {
    if let Some(threads) = cli.global.threads {
        rayon::ThreadPoolBuilder::new().num_threads(threads).build_global()?;
    }
    // static linking may lose what `inventory` collects; registering twice changes nothing
    attn_core::registry::register(attn_variants::variants())?;
    attn_core::registry::register(variants)?;
    let global = &cli.global;
    match cli.command {
        Command::List(args) => list::run(&args, global),
        Command::Source(args) => source::run(&args),
        Command::Compile(args) => compile::run(&args, global),
        Command::Tiles(args) => tiles::run(&args, global),
        Command::Check(args) => check::run(&args, global),
        Command::Bench(args) => bench::run(&args, global),
        Command::Calibrate(args) => calibrate::run(&args, global),
        Command::Doctor(args) => doctor::run(&args, global),
    }
}

/// An error and its causes in a line; a cause that its effect repeats is said once.
fn causes(error: &anyhow::Error) -> String {
    let mut line = String::new();
    for cause in error.chain().map(ToString::to_string) {
        if line.is_empty() {
            line = cause;
        } else if !line.contains(&cause) {
            line = format!("{line}: {cause}");
        }
    }
    line
}
