//! Environment variables that a build reads.

use std::{env, process::Command, str::FromStr};

use super::{AotError, AotReport};
use crate::compile::Arch;

/// The parts of a list that `;` separates.
pub(super) fn split(list: &str) -> impl Iterator<Item = &str> {
    list.split(';').map(str::trim).filter(|part| !part.is_empty())
}

/// Replaces `values` by those of a variable, if it is set.
pub(super) fn list_from_env<T: FromStr>(
    name: &'static str,
    allowed: &'static str,
    values: &mut Vec<T>,
) -> Result<(), AotError> {
    let text = env::var(name).unwrap_or_default();
    if !text.trim().is_empty() {
        let bad = |word: &str| AotError::Variable { name, value: word.to_owned(), allowed };
        *values = split(&text).map(|word| word.parse().map_err(|_| bad(word))).collect::<Result<_, _>>()?;
    }
    Ok(())
}

/// The architectures of `ATTN_CUDA_ARCHS`.
pub(super) fn archs_from_env(report: &mut AotReport) -> Result<Vec<Arch>, AotError> {
    let list = env::var("ATTN_CUDA_ARCHS").unwrap_or_default();
    let mut archs = Vec::new();
    for part in split(&list) {
        if part == "native" {
            let native = native();
            if native.is_empty() {
                report
                    .notes
                    .push("ATTN_CUDA_ARCHS=native: nvidia-smi names no GPU here, nothing is embedded for it".into());
            }
            archs.extend(native);
        } else {
            archs.push(part.parse()?);
        }
    }
    archs.sort_unstable();
    archs.dedup();
    Ok(archs)
}

/// The architectures of the GPUs of this machine.
fn native() -> Vec<Arch> {
    let output = Command::new("nvidia-smi").args(["--query-gpu=compute_cap", "--format=csv,noheader"]).output();
    let text = output.map(|o| String::from_utf8_lossy(&o.stdout).into_owned()).unwrap_or_default();
    text.lines()
        .filter_map(|line| line.trim().parse::<Arch>().ok())
        .map(|arch| Arch::for_device(arch.major(), arch.minor()))
        .collect()
}
