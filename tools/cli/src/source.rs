//! `attn source`: the CUDA text of a variant, or of one of its kernels.

use std::process::ExitCode;

use anyhow::{Context as _, Result};
use attn_core::spec::KernelKind;
use serde_json::json;

use crate::{global::Global, kernels::KernelArgs, output::Output, rust_text::RustText};

const KERNEL_OPTIONS: &str = "Options of the kernel (with --full)";

#[derive(clap::Args)]
#[command(mut_group("KernelArgs", |group| group.requires("full")))]
pub(crate) struct Source {
    /// A variant expression: 'causal + soft_cap(cap=30)', or a source file with one variant. Tensor parameters may be
    /// left out.
    #[arg(value_name = "EXPR")]
    expr: String,
    /// Prints the whole translation unit of a kernel.
    #[arg(long)]
    full: bool,
    /// The kernel: prefill, decode or mixed.
    #[arg(long, default_value = "prefill", requires = "full", help_heading = KERNEL_OPTIONS)]
    kernel: KernelKind,
    #[command(flatten)]
    rust: RustText,
    #[command(flatten, next_help_heading = KERNEL_OPTIONS)]
    kernel_args: KernelArgs,
}

/// Prints the functor of the variant: its structs with constants, helpers and hooks. With `--full` it prints the
/// translation unit.
pub(crate) fn run(args: &Source, global: &Global) -> Result<ExitCode> {
    // synthetic tensors: parameters are kernel arguments and no part of the text
    let variant = attn_testing::filled_variant(&args.rust.expression(&args.expr)?)?;
    let text = if args.full {
        args.kernel_args.check_one()?;
        args.kernel_args.check_used(&[args.kernel])?;
        let sources = args.kernel_args.sources(&variant, args.kernel, &global.costs()?)?;
        sources.into_iter().next().context("no kernel was chosen")?.text
    } else {
        attn::cuda_source(&variant)?
    };
    let mut output = Output::new(global, &[])?;
    output.line(&json!({ "expr": args.expr, "full": args.full, "source": text }))?;
    if output.is_table() {
        output.text(&text)?;
    }
    output.finish()?;
    Ok(ExitCode::SUCCESS)
}
