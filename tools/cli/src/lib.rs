//! The `attn` command as a library. It lists variants, prints their CUDA, compiles, checks and times kernels.
//!
//! A program with variants of its own gets the same command from one call: [`main_with`].
//!
//! Each command makes *records* (JSON objects). The `output` module prints them as a table, or as JSON lines.

mod bench;
mod calibrate;
mod cases;
mod check;
mod compile;
mod date;
mod doctor;
mod environment;
mod global;
mod kernels;
mod keys;
mod list;
mod op_bench;
mod output;
mod prepare;
mod report;
mod rust_text;
mod sampling_serve;
mod serve;
mod source;
mod tiles;
mod xml;

use std::process::ExitCode;

use attn_core::lang::VariantDesc;
use clap::{Parser, Subcommand};

use crate::global::Global;
use crate::output::{causes, message};

/// Attention variants as Rust, CUDA and cubins: list, show, compile, check, time.
///
/// Results go to stdout as a table, with --json as JSON lines. Messages go to stderr. Colours need a terminal, and
/// NO_COLOR turns them off. Outside a terminal COLUMNS sets the width.
#[derive(Parser)]
#[command(name = "attn", version, propagate_version = true)]
struct Cli {
    #[command(flatten)]
    global: Global,
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// The registered variants with parameters and hooks, and the cubins embedded in this binary.
    List(list::List),
    /// The CUDA functor that a variant becomes; with --full the whole translation unit of a kernel.
    Source(source::Source),
    /// Compiles kernels: registers, spills, shared memory, size, time.
    Compile(compile::Compile),
    /// The keys of the kernels that the built-in grids and case files run, without compiling them.
    Keys(keys::Keys),
    /// The tile classes of a mask (skip, full, partial): counts and a picture.
    Tiles(tiles::Tiles),
    /// Compares results with the f64 reference over a case file or a grid; fails if one is outside tolerance.
    Check(check::Check),
    /// Times the cases of a file, or serves the interleaved benchmark.
    Bench(bench::Bench),
    /// Measures the planner's costs of each kernel on this GPU: a file for --costs and ATTN_COSTS.
    Calibrate(calibrate::Calibrate),
    /// Reports what this machine has, what is missing, and how to install it.
    Doctor(doctor::Doctor),
}

/// Runs the command with the stock variants and those that are registered at link time.
pub fn main() -> ExitCode {
    main_with(&[])
}

/// Runs the command with further variants.
pub fn main_with(variants: &[&'static VariantDesc]) -> ExitCode {
    let cli = Cli::parse();
    let filter = match environment::log_filter() {
        Ok(filter) => filter,
        Err(why) => {
            message!("attn: {why}");
            return ExitCode::from(2);
        }
    };
    tracing_subscriber::fmt().with_env_filter(filter).with_writer(std::io::stderr).without_time().init();
    attn::register_embedded();
    match run(cli, variants) {
        Ok(code) => code,
        Err(error) => {
            message!("attn: {}", causes(&error));
            ExitCode::from(2)
        }
    }
}

fn run(cli: Cli, variants: &[&'static VariantDesc]) -> anyhow::Result<ExitCode> {
    if let Some(threads) = cli.global.threads {
        rayon::ThreadPoolBuilder::new().num_threads(threads.into()).build_global()?;
    }
    // a file that a command does not need is not ignored if it cannot be read
    cli.global.costs_of_option()?;
    // static linking may drop what `inventory` collects, and registering twice changes nothing
    attn_core::registry::register(attn_variants::variants())?;
    attn_core::registry::register(variants)?;
    let global = &cli.global;
    match cli.command {
        Command::List(args) => list::run(&args, global),
        Command::Source(args) => source::run(&args, global),
        Command::Compile(args) => compile::run(&args, global),
        Command::Keys(args) => keys::run(&args, global),
        Command::Tiles(args) => tiles::run(&args, global),
        Command::Check(args) => check::run(&args, global),
        Command::Bench(args) => bench::run(&args, global),
        Command::Calibrate(args) => calibrate::run(&args, global),
        Command::Doctor(args) => doctor::run(&args, global),
    }
}
