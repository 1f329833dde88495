//! The options of every command.

use std::path::PathBuf;

use clap::Args;

const HEADING: &str = "Options of every command";

/// The options of every command.
#[derive(Args)]
pub(crate) struct Global {
    /// Prints JSON lines instead of a table.
    #[arg(long, global = true, help_heading = HEADING)]
    pub(crate) json: bool,
    /// Also writes the JSON lines to a file.
    #[arg(long, global = true, help_heading = HEADING, value_name = "FILE")]
    pub(crate) out: Option<PathBuf>,
    /// Threads of the CPU backend and of compilation. The default is all cores.
    #[arg(long, global = true, help_heading = HEADING, value_name = "N")]
    pub(crate) threads: Option<usize>,
}
