//! Prefix lookup beside `BlockManager::match_blocks` of kvbm-logical, interleaved, on one thread.
//!
//! `cargo run --release` prints nanoseconds per lookup, the drop of the result included: the median of many rounds.
//! Both hold the same prefix, once locked by a running request (active) and once by nobody (inactive). kvbm-logical is
//! shown with the hashes given and with the hashes made of the tokens; attn-cache compares the tokens in every lookup.

use std::{hint::black_box, time::Instant};

use attn_cache::{Namespace, Pages, Prefix};
use dynamo_tokens::TokenBlockSequence;
use kvbm_logical::{BlockManager, BlockRegistry, KvbmSequenceHashProvider, SequenceHash, blocks::ImmutableBlock};

const PAGE: usize = 16;
const ROUNDS: usize = 301;

#[derive(Clone, Debug)]
struct Metadata;

type Manager = BlockManager<Metadata>;

fn hashes(tokens: &[u32]) -> Vec<SequenceHash> {
    let sequence = TokenBlockSequence::from_slice(tokens, PAGE as u32, Some(1337));
    sequence.blocks().iter().map(|block| block.kvbm_sequence_hash()).collect()
}

fn manager(tokens: &[u32]) -> (Manager, Vec<ImmutableBlock<Metadata>>) {
    let count = tokens.len() / PAGE;
    let manager = Manager::builder()
        .block_count(2 * count)
        .block_size(PAGE)
        .registry(BlockRegistry::builder().build())
        .with_lru_backend()
        .build()
        .expect("a manager");
    let sequence = TokenBlockSequence::from_slice(tokens, PAGE as u32, Some(1337));
    let mutable = manager.allocate_blocks(count).expect("blocks");
    let complete = mutable
        .into_iter()
        .zip(sequence.blocks())
        .map(|(block, tokens)| block.complete(tokens).unwrap_or_else(|_| panic!("a block of {PAGE} tokens")));
    let held = manager.register_blocks(complete.collect());
    (manager, held)
}

fn nanoseconds(repeats: usize, mut work: impl FnMut()) -> f64 {
    let begin = Instant::now();
    (0..repeats).for_each(|_| work());
    begin.elapsed().as_nanos() as f64 / repeats as f64
}

fn median(mut of: Vec<f64>) -> f64 {
    of.sort_by(f64::total_cmp);
    of[of.len() / 2]
}

fn main() {
    println!("pages  state     attn-cache  match_blocks  with hashes  attn-cache / match_blocks");
    for pages in [8, 32, 128, 512] {
        let tokens: Vec<u32> = (0..(pages * PAGE) as u32).map(|i| i.wrapping_mul(2_654_435_761) >> 15).collect();
        let prompt = [&tokens[..], &[0]].concat();
        let namespace = Namespace::default();
        let given = hashes(&tokens);
        for active in [true, false] {
            let pool = Pages::new(2 * pages, PAGE).expect("a pool");
            let prefix = Prefix::new(&pool);
            let held = pool.alloc(pages).expect("pages");
            let inserted = prefix.insert(&namespace, &tokens, &held).expect("sound");
            let ours = active.then_some((held, inserted));
            let (manager, blocks) = manager(&tokens);
            let theirs = active.then_some(blocks);
            let repeats = 20_000 / pages;
            let mut times = [vec![], vec![], vec![]];
            for round in 0..ROUNDS {
                for first in 0..3 {
                    match (round + first) % 3 {
                        0 => times[0].push(nanoseconds(repeats, || {
                            let hit = prefix.lookup(&namespace, black_box(&prompt));
                            assert_eq!(hit.pages.len(), pages);
                        })),
                        1 => times[1].push(nanoseconds(repeats, || {
                            assert_eq!(manager.match_blocks(black_box(&given)).len(), pages);
                        })),
                        _ => times[2].push(nanoseconds(repeats / 4, || {
                            assert_eq!(manager.match_blocks(&hashes(black_box(&tokens))).len(), pages);
                        })),
                    }
                }
            }
            drop((ours, theirs));
            let [ours, theirs, with_hashes] = times.map(median);
            let state = if active { "active" } else { "inactive" };
            let ratio = ours / theirs;
            println!("{pages:5}  {state:8} {ours:11.0} {theirs:13.0} {with_hashes:12.0} {ratio:10.2}");
        }
    }
}
