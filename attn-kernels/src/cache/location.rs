//! The folder and the limit of the cache, from environment variables.

use std::{env, path::PathBuf};

use crate::switch::is_on;

/// In bytes; enough for some thousand kernels.
const DEFAULT_LIMIT: u64 = 512 << 20;

pub(super) fn from_environment() -> Option<(PathBuf, u64)> {
    if !is_on("ATTN_CACHE") {
        return None;
    }
    let Some(dir) = dir() else {
        tracing::warn!("no folder for compiled kernels: set ATTN_CACHE_DIR or HOME; they are kept in memory alone");
        return None;
    };
    let limit = match env::var("ATTN_CACHE_SIZE") {
        Ok(text) if !text.is_empty() => parse_size(&text).unwrap_or_else(|| {
            tracing::warn!(ATTN_CACHE_SIZE = text, "not a size; write for example 512M or 2G; using 512M");
            DEFAULT_LIMIT
        }),
        _ => DEFAULT_LIMIT,
    };
    Some((dir, limit))
}

fn dir() -> Option<PathBuf> {
    let var = |name| env::var_os(name).filter(|v| !v.is_empty()).map(PathBuf::from);
    if let Some(dir) = var("ATTN_CACHE_DIR") {
        return Some(dir);
    }
    if cfg!(windows) {
        return var("LOCALAPPDATA").map(|d| d.join("attn-rs").join("cubins"));
    }
    let home = || env::home_dir().filter(|h| !h.as_os_str().is_empty());
    // the XDG specification says to ignore a relative path
    let base = var("XDG_CACHE_HOME").filter(|d| d.is_absolute()).or_else(|| Some(home()?.join(".cache")))?;
    Some(base.join("attn-rs").join("cubins"))
}

fn parse_size(text: &str) -> Option<u64> {
    let text = text.trim().trim_end_matches(['B', 'b']);
    let (number, shift) = match text.chars().last()?.to_ascii_uppercase() {
        'K' => (&text[..text.len() - 1], 10),
        'M' => (&text[..text.len() - 1], 20),
        'G' => (&text[..text.len() - 1], 30),
        _ => (text, 0),
    };
    number.trim().parse::<u64>().ok()?.checked_mul(1 << shift)
}

#[cfg(test)]
mod tests {
    use super::parse_size;

    #[test]
    fn sizes() {
        assert_eq!(parse_size("1000"), Some(1000));
        assert_eq!(parse_size("512M"), Some(512 << 20));
        assert_eq!(parse_size("2 GB"), Some(2 << 30));
        assert_eq!(parse_size("many"), None);
        assert_eq!(parse_size("99999999999G"), None);
    }
}
