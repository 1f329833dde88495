//! `cargo xtask mutants`: a test of the tests. Each mutant is a mistake in a kernel or in the Rust around it, and at
//! least one test that is not ignored has to fail with it, over whole grids. Without mutants all tests pass: run them
//! before.

mod kernels;
mod list;
mod results;
mod rust;

use std::{path::Path, time::Instant};

use anyhow::{Result, bail, ensure};
use xshell::Shell;

use list::{Killer, Mutant, read};

#[derive(Default, clap::Args)]
pub(crate) struct Args {
    /// Only the mutants whose name contains this text.
    filter: Option<String>,
    /// Only mutants of kernels, which need no Rust build.
    #[arg(long, conflicts_with = "rust")]
    kernels: bool,
    /// Only mutants of Rust.
    #[arg(long)]
    rust: bool,
    /// Keeps what catches each of them in tests/data/mutants/results.jsonl, and writes the table of the book.
    #[arg(long)]
    write: bool,
}

/// Runs tests with each mutant; fails if one survives.
pub(crate) fn run(sh: &Shell, root: &Path, args: &Args) -> Result<()> {
    let mutants = read(root)?;
    let filter = args.filter.as_deref().unwrap_or_default();
    let kind = |mutant: &&Mutant| !(if mutant.is_of_kernels() { args.rust } else { args.kernels });
    let chosen: Vec<_> = mutants.iter().filter(|mutant| mutant.name.contains(filter)).filter(kind).collect();
    ensure!(!chosen.is_empty(), "no mutant is called `{filter}`");
    let (of_kernels, of_rust): (Vec<&Mutant>, _) = chosen.iter().partition(|mutant| mutant.is_of_kernels());
    let mut survivors = Vec::new();
    let mut judge = |mutant: &Mutant, killer: Option<Killer>, start: Instant| -> Result<()> {
        let how = killer.as_ref().map_or_else(|| "SURVIVES".to_owned(), |killer| format!("fails {}", killer.title()));
        println!("{}: {how} ({:.0} s)", mutant.name, start.elapsed().as_secs_f64());
        if killer.is_none() {
            survivors.push(mutant.name.clone());
        }
        if args.write { results::keep(sh, root, mutant, killer.as_ref()) } else { Ok(()) }
    };
    if !of_kernels.is_empty() {
        let programs = kernels::build(sh, root)?;
        for mutant in of_kernels {
            let start = Instant::now();
            judge(mutant, programs.killer(root, mutant)?, start)?;
        }
    }
    if !of_rust.is_empty() {
        let tree = rust::tree(sh, root)?;
        for mutant in of_rust {
            let start = Instant::now();
            judge(mutant, tree.killer(sh, mutant)?, start)?;
        }
    }
    if args.write {
        results::write(root, &mutants)?;
    }
    if survivors.is_empty() {
        println!("all of {} mutants fail a test", chosen.len());
        return Ok(());
    }
    bail!("{} of {} mutants survive: {}", survivors.len(), chosen.len(), survivors.join(", "))
}
