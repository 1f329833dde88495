//! Variants as Rust text: `attn source mine.rs`, and `--rust mine.rs` beside an expression.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result, bail};
use attn_core::{lang::VariantDesc, registry, registry::Registry};
use attn_testing::example_expression;

#[derive(clap::Args)]
pub(crate) struct RustText {
    /// A source file whose variants the expression may name. May be given several times.
    #[arg(long = "rust", value_name = "FILE.rs")]
    files: Vec<PathBuf>,
}

impl RustText {
    /// Registers the variants of the files.
    pub(crate) fn register(&self) -> Result<()> {
        if !self.files.is_empty() {
            load(&self.files)?;
        }
        Ok(())
    }

    /// The expression; for a source file, that of its only variant, with a value for each parameter that needs one.
    pub(crate) fn expression(&self, expr: &str) -> Result<String> {
        self.register()?;
        if Path::new(expr).extension().is_none_or(|extension| extension != "rs") {
            return Ok(expr.to_owned());
        }
        match load(&[PathBuf::from(expr)])?[..] {
            [variant] => Ok(example_expression(variant, &*Registry::global()?)?),
            ref variants => {
                let names: Vec<_> = variants.iter().map(|variant| variant.name).collect();
                bail!("{expr} has the variants {}: name one, with `--rust {expr}`", names.join(", "))
            }
        }
    }
}

/// Reads files, which see the constants and helpers of each other, and registers their variants.
fn load(files: &[PathBuf]) -> Result<Vec<&'static VariantDesc>> {
    let read = |path: &PathBuf| {
        let name = path.display().to_string();
        let text = fs::read_to_string(path).with_context(|| format!("cannot read {name}"))?;
        Ok((name, text))
    };
    let texts = files.iter().map(read).collect::<Result<Vec<_>>>()?;
    let named: Vec<_> = texts.iter().map(|(name, text)| (name.as_str(), text.as_str())).collect();
    let variants = attn_text::load(&named)?;
    registry::register(&variants)?;
    Ok(variants)
}
