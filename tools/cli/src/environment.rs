//! The environment variables of attn-rs: values and names that are not understood.

use std::env;

use attn_core::nearest::nearest;
use tracing_subscriber::EnvFilter;

/// The names that the reference lists (book/src/reference/environment.md), but for those of [`OTHERS`].
const NAMES: [&str; 16] = [
    "ATTN_NVRTC",
    "ATTN_NCCL",
    "ATTN_NVCC",
    "ATTN_COMPILER",
    "ATTN_CACHE_DIR",
    "ATTN_CACHE_SIZE",
    "ATTN_CACHE",
    "ATTN_COSTS",
    "ATTN_JIT",
    "ATTN_CUDA_ARCHS",
    "ATTN_AOT_EXPRS",
    "ATTN_AOT_HEAD_DIMS",
    "ATTN_AOT_DTYPES",
    "ATTN_AOT_KV_DTYPES",
    "ATTN_AOT_KV_FORMATS",
    "ATTN_LOG",
];

/// How names begin that tests alone read, or attn-rs in vLLM, which refuses what it does not know.
const OTHERS: [&str; 3] = ["ATTN_TEST_", "ATTN_FUZZ_", "ATTN_RS_"];

/// What `ATTN_LOG` asks for; warnings without it.
pub(crate) fn log_filter() -> Result<EnvFilter, String> {
    match env::var("ATTN_LOG") {
        Ok(text) if !text.trim().is_empty() => EnvFilter::builder().parse(&text).map_err(|error| {
            format!("ATTN_LOG={text}: {error}; write a level (error, warn, info, debug, trace) or attn_kernels=debug")
        }),
        Err(env::VarError::NotUnicode(text)) => Err(format!("ATTN_LOG={}: not UTF-8", text.display())),
        _ => Ok(EnvFilter::new("warn")),
    }
}

/// Which variables are set, or which of them are not understood.
pub(crate) fn report() -> Result<String, String> {
    let names = env::vars_os().filter_map(|(name, _)| name.into_string().ok());
    let mut set: Vec<String> = names.filter(|name| name.starts_with("ATTN_")).collect();
    set.sort();
    let value = |name: &str| env::var(name).ok();
    let wrong: Vec<String> = set.iter().filter_map(|name| wrong(name, value(name).as_deref())).collect();
    match (wrong.is_empty(), set.is_empty()) {
        (false, _) => Err(wrong.join("; ")),
        (true, true) => Ok("no variable of attn-rs is set".to_owned()),
        (true, false) => Ok(set.join(", ")),
    }
}

/// Why a variable is not understood.
fn wrong(name: &str, value: Option<&str>) -> Option<String> {
    if !NAMES.contains(&name) {
        let of_others = OTHERS.iter().any(|begin| name.starts_with(begin));
        let near = nearest(name, NAMES).map_or_else(String::new, |near| format!("; did you mean `{near}`?"));
        return (!of_others).then(|| format!("`{name}` is no variable of attn-rs{near}"));
    }
    let value = value?;
    let possible: &[&str] = match name {
        "ATTN_CACHE" | "ATTN_JIT" => &["", "on", "off", "1", "0", "true", "false"],
        "ATTN_COMPILER" => &["", "nvrtc", "nvcc"],
        _ => return None,
    };
    let named = || possible[1..].join(", ");
    (!possible.contains(&value)).then(|| format!("{name}={value}: there are {}", named()))
}

#[cfg(test)]
mod tests {
    use super::{NAMES, wrong};

    #[test]
    fn the_names_are_those_of_the_reference() {
        let text = include_str!("../../../book/src/reference/environment.md");
        let listed = |name: &str| text.contains(&format!("`{name}`")) || text.contains(&format!("`{name}="));
        assert!(NAMES.iter().all(|name| listed(name)), "{NAMES:?}");
        for name in text.split('`').skip(1).step_by(2).filter(|word| word.starts_with("ATTN_")) {
            let name = name.split('=').next().unwrap_or(name);
            assert_eq!(wrong(name, None), None, "{name}");
        }
    }

    #[test]
    fn names_and_values_that_are_not_understood_are_named() {
        for (name, value, why) in [
            ("ATTN_NVTRC", "x", "`ATTN_NVTRC` is no variable of attn-rs; did you mean `ATTN_NVRTC`?"),
            ("ATTN_CACHE_DIRS", "x", "did you mean `ATTN_CACHE_DIR`?"),
            ("ATTN_WHATEVER_ELSE", "x", "`ATTN_WHATEVER_ELSE` is no variable of attn-rs"),
            ("ATTN_JIT", "of", "ATTN_JIT=of: there are on, off"),
            ("ATTN_CACHE", "none", "ATTN_CACHE=none: there are on, off"),
            ("ATTN_COMPILER", "gcc", "ATTN_COMPILER=gcc: there are nvrtc, nvcc"),
        ] {
            let found = wrong(name, Some(value)).expect(name);
            assert!(found.contains(why), "{found}");
        }
        assert_eq!(wrong("ATTN_JIT", Some("off")), None);
        assert_eq!(wrong("ATTN_TEST_REQUIRE", Some("gpu")), None);
    }
}
