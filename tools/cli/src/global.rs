//! The options of every command.

use std::path::PathBuf;

use anyhow::Result;
use attn_kernels::cost::CostTable;
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
    /// Threads of the CPU backend and of compilation, at most 1024. The default is all cores.
    #[arg(long, global = true, help_heading = HEADING, value_name = "N",
        value_parser = clap::value_parser!(u16).range(1..=1024))]
    pub(crate) threads: Option<u16>,
    /// Costs of kernels that `attn calibrate --out FILE` measured, to choose kernels and to plan by. The default is the
    /// file that ATTN_COSTS names, else the built-in costs.
    #[arg(long, global = true, help_heading = HEADING, value_name = "FILE")]
    costs: Option<PathBuf>,
}

impl Global {
    /// The costs to choose kernels by.
    pub(crate) fn costs(&self) -> Result<CostTable> {
        Ok(self.costs_of_option()?.map_or_else(CostTable::from_env, Ok)?)
    }

    /// The costs of `--costs`.
    pub(crate) fn costs_of_option(&self) -> Result<Option<CostTable>> {
        Ok(self.costs.as_ref().map(CostTable::load).transpose()?)
    }
}
