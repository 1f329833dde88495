//! What tests need and a machine may lack, and samples of what takes minutes as a whole.
//!
//! A test without what it needs is skipped; no skip is silent.
//!
//! A skip is printed. Where `ATTN_TEST_SKIPS` names a folder, it is a file there as well, which `cargo xtask test`
//! counts: each test may run in a process of its own. `ATTN_TEST_REQUIRE=nvrtc,gpu` makes skips for these reasons
//! failures.
#![allow(clippy::print_stderr)] // a skip that nobody sees is the fault that this crate prevents

mod need;
mod record;
mod sample;

use std::{env, fmt};

pub use need::Need;
pub use sample::{sample, seed, whole};

/// What a test needs, or `None` after its skip was recorded; the test then returns.
///
/// # Panics
///
/// `ATTN_TEST_REQUIRE` names the need, which is missing, or names something unknown.
#[track_caller]
pub fn needed<T, E: fmt::Display>(need: Need, found: Result<T, E>) -> Option<T> {
    match found {
        Ok(found) => Some(found),
        Err(why) => {
            assert!(!required().contains(&need), "ATTN_TEST_REQUIRE={}, and there is none: {why}", need.word());
            eprintln!("SKIPPED: needs {need}: {why}");
            record::skip(need, &record::test());
            None
        }
    }
}

/// Records the skip of a test of another language, whose runner says why it skipped.
///
/// # Panics
///
/// `ATTN_TEST_REQUIRE` names the need.
pub fn skipped(need: Need, test: &str) {
    assert!(!required().contains(&need), "ATTN_TEST_REQUIRE={}, and {test} was skipped", need.word());
    record::skip(need, test);
}

/// Whether what a test needs is there; a skip is printed and recorded, as by [`needed`].
///
/// # Panics
///
/// It is not there, and `ATTN_TEST_REQUIRE` names the need.
#[track_caller]
pub fn has<T, E: fmt::Display>(need: Need, found: Result<T, E>) -> bool {
    needed(need, found).is_some()
}

/// The needs that `ATTN_TEST_REQUIRE` names.
///
/// # Panics
///
/// An unknown word: a misspelt requirement would require nothing.
pub fn required() -> Vec<Need> {
    let words = env::var("ATTN_TEST_REQUIRE").unwrap_or_default();
    parse(&words).unwrap_or_else(|error| panic!("{error}"))
}

fn parse(words: &str) -> Result<Vec<Need>, String> {
    let known = |word: &str| {
        Need::ALL.into_iter().find(|need| need.word() == word).ok_or_else(|| {
            let all = Need::ALL.map(Need::word).join(", ");
            format!("ATTN_TEST_REQUIRE: `{word}` is not known; there are: {all}")
        })
    };
    words.split(',').map(str::trim).filter(|word| !word.is_empty()).map(known).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_name_needs() {
        assert_eq!(parse("nvrtc, gpu,"), Ok(vec![Need::Nvrtc, Need::Gpu]));
        assert_eq!(parse(""), Ok(Vec::new()));
        let error = parse("nvrct").expect_err("misspelt");
        assert!(error.contains("`nvrct`") && error.contains("nvrtc, nvcc, gpu"), "{error}");
    }

    #[test]
    fn what_is_there_is_returned() {
        assert_eq!(needed(Need::Gpu, Ok::<_, String>(3)), Some(3));
    }
}
