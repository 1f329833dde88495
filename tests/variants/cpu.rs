//! Every entry of the catalogue on the CPU backend against its formula.

use attn_tests::catalogue;

/// The number of tests that share the entries and run in parallel.
const SHARDS: usize = 4;

#[test]
fn first_quarter() {
    check(0);
}

#[test]
fn second_quarter() {
    check(1);
}

#[test]
fn third_quarter() {
    check(2);
}

#[test]
fn last_quarter() {
    check(3);
}

fn check(shard: usize) {
    catalogue::register();
    catalogue::entries().iter().skip(shard).step_by(SHARDS).for_each(catalogue::run::check);
}
