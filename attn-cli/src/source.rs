//! `attn source`.

use std::{io::Write as _, process::ExitCode};

use anyhow::{Context as _, Result};
use attn_core::{expr::Variant, spec::KernelKind};

use crate::kernels::Wanted;

#[derive(clap::Args)]
pub(crate) struct Source {
    /// A variant expression: 'causal + soft_cap(cap=30)'.
    #[arg(value_name = "EXPR")]
    expr: String,
    /// prefill, decode or mixed.
    #[arg(long, default_value = "prefill")]
    kernel: KernelKind,
    #[command(flatten)]
    wanted: Wanted,
    /// Prints the variant's struct alone, without the template.
    #[arg(long)]
    variant_only: bool,
}

/// Prints the translation unit.
pub(crate) fn run(args: &Source) -> Result<ExitCode> {
    let variant = Variant::parse(&args.expr)?;
    let sources = args.wanted.sources(&variant, args.kernel)?;
    let source = sources.first().context("nothing was asked for")?;
    let text = if args.variant_only { variant_struct(&source.text) } else { &source.text };
    // `attn source .. | head` is no error
    let _ = std::io::stdout().write_all(text.as_bytes());
    Ok(ExitCode::SUCCESS)
}

/// From the first struct of the variant to the template.
fn variant_struct(text: &str) -> &str {
    let begin = text.find("// ---- variant").unwrap_or(0);
    let end = text[begin..].find("// ---- template").map_or(text.len(), |n| begin + n);
    &text[begin..end]
}
