//! Every entry of the catalogue on the CPU backend against its formula.

use attn_tests::catalogue;

/// Tests of one binary run at the same time: each takes the rows of its remainder.
macro_rules! shards {
    ($($name:ident: $n:literal),* $(,)?) => {$(
        #[test]
        fn $name() {
            check_shard($n, [$($n),*].len());
        }
    )*};
}
shards!(first_quarter: 0, second_quarter: 1, third_quarter: 2, last_quarter: 3);

fn check_shard(shard: usize, shards: usize) {
    catalogue::register();
    let entries = catalogue::entries();
    let mine: Vec<_> = entries.iter().skip(shard).step_by(shards).collect();
    mine.into_iter().for_each(catalogue::run::check);
}
