//! Block tables of an engine, which a step of attn-cache turns into the arrays of a batch.

use attn_cache::{BlockTables, ReadCost, Step, StepCapacity};
use attn_core::batch::Batch;

use super::numbers::{Numbers, list};
use crate::harness::Seen;

/// The pool, the capacity, whether prefixes are grouped, then builds, in the order of `run`.
pub(crate) fn corpus() -> Vec<Vec<u8>> {
    // 16 pages of 4; room for 4 sequences, 16 tokens, 20 pages, 5 each, 3 levels; grouped
    let grouped = vec![16, 4, 4, 16, 20, 5, 3, 1];
    let three_builds = [
        build(&[(8, 1, [5, 6]), (8, 1, [5, 7])]),
        build(&[(9, 1, [5, 6, 8]), (9, 1, [5, 7, 9])]),
        build(&[(9, 1, [0, 3, 3])]),
    ];
    vec![
        [grouped.clone(), build(&[(9, 1, [0, 1, 2]), (5, 2, [0, 3, 0])])].concat(),
        [grouped, three_builds.concat()].concat(),
        // pages of one token, not grouped; the last entry is -1 and no page of the 3 tokens
        [vec![8, 1, 2, 4, 8, 4, 1, 0], build(&[(3, 2, [0, 1, 2, 250])])].concat(),
    ]
}

/// A block table of a case: tokens, new tokens and pages of each sequence.
fn build<const MAX_PAGES: usize>(sequences: &[(u8, u8, [u8; MAX_PAGES])]) -> Vec<u8> {
    let (tokens, new_tokens): (Vec<u8>, Vec<u8>) = sequences.iter().map(|(tokens, new, _)| (tokens, new)).unzip();
    let pages: Vec<u8> = sequences.iter().flat_map(|(.., pages)| *pages).collect();
    [list(&tokens), list(&new_tokens), list(&pages), vec![MAX_PAGES as u8]].concat()
}

pub(crate) fn run(data: &[u8]) -> Seen {
    let mut from = Numbers(data);
    let (num_pages, page_size) = (from.number() as usize, from.number() as usize);
    let mut size = || usize::from(from.byte());
    let capacity =
        StepCapacity { sequences: size(), tokens: size(), pages: size(), pages_per_sequence: size(), levels: size() };
    let Ok(step) = Step::for_tables(num_pages, page_size, capacity) else { return Seen::Refused };
    let mut step = if from.byte() % 2 == 1 { step.group_prefixes() } else { step };
    let mut seen = Seen::Refused;
    while !from.is_empty() {
        let tokens = from.list(|from| from.number() as usize);
        let new_tokens = from.list(|from| from.number() as usize);
        let pages = from.list(Numbers::i32);
        let max_pages = usize::from(from.byte());
        let mut tables = BlockTables { pages: &pages, max_pages, tokens: &tokens, new_tokens: &new_tokens };
        if step.build(&tables).is_err() {
            continue;
        }
        seen = Seen::Accepted;
        // a step hides no error from the batch, except that a released page is no page
        let released = pages.contains(&attn_cache::RELEASED);
        let arrays = step.arrays();
        assert!(arrays.batch().validate().is_ok() || released, "{:?}", arrays.batch().validate());
        let padded = step.padded();
        let table = padded.padded_table();
        assert!(Batch::block_table(padded.qo_indptr, &table).validate().is_ok() || released);
        step.choose_levels(&ReadCost::default());
        let levels = step.levels();
        if levels.len() > 1 {
            let cascade = Batch::cascade(step.arrays().qo_indptr, &levels);
            assert!(cascade.validate().is_ok() || released, "{:?}", cascade.validate());
        }
        step.commit(&mut tables);
    }
    seen
}
