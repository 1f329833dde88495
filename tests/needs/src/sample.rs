//! Samples of what takes minutes as a whole.

use std::env;

/// Whether `ATTN_TEST_WHOLE` asks for all of what tests sample. `cargo xtask test --all` sets it.
#[must_use]
pub fn whole() -> bool {
    env::var_os("ATTN_TEST_WHOLE").is_some()
}

/// At most `most` of a list, spread evenly; all of it where tests run as a [`whole`]. `ATTN_TEST_SEED` (0) moves the
/// sample.
///
/// # Panics
///
/// The seed is no number.
#[must_use]
pub fn sample<T>(all: Vec<T>, most: usize) -> Vec<T> {
    if whole() { all } else { spread(all, most, seed()) }
}

/// `ATTN_TEST_SEED`, or 0: what samples begin with.
///
/// # Panics
///
/// It is no number.
#[must_use]
pub fn seed() -> usize {
    env::var("ATTN_TEST_SEED").map_or(0, |seed| seed.parse().expect("ATTN_TEST_SEED is a number"))
}

fn spread<T>(all: Vec<T>, most: usize, seed: usize) -> Vec<T> {
    let every = all.len().div_ceil(most.max(1)).max(1);
    all.into_iter().skip(seed % every).step_by(every).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn samples_are_spread() {
        let of = |count: usize, most, seed| spread((0..count).collect(), most, seed);
        assert_eq!(of(10, 4, 0), [0, 3, 6, 9]);
        assert_eq!(of(10, 4, 2), [2, 5, 8]);
        assert_eq!(of(3, 4, 0), [0, 1, 2]);
        assert_eq!(of(9, 4, 0), [0, 3, 6]);
        assert!(of(0, 4, 1).is_empty());
    }

    /// Each is in the sample of some seed.
    #[test]
    fn seeds_reach_everything() {
        let mut reached: Vec<usize> = (0..5).flat_map(|seed| spread((0..17).collect(), 4, seed)).collect();
        reached.sort_unstable();
        reached.dedup();
        assert_eq!(reached, (0..17).collect::<Vec<_>>());
    }
}
