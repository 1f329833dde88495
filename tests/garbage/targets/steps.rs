//! Block tables of an engine, which a step of attn-cache turns into the arrays of a batch.

use attn_cache::{BlockTables, ReadCost, Step, StepCapacity};
use attn_core::batch::Batch;

use super::numbers::Numbers;
use crate::harness::Seen;

pub(crate) fn corpus() -> Vec<Vec<u8>> {
    vec![
        // a pool of 16 pages of 4; room for 4 sequences, 16 tokens, 20 pages, 5 each, 3 levels; a build of 2 sequences
        vec![16, 4, 4, 16, 20, 5, 3, 1, 2, 9, 5, 2, 1, 2, 6, 0, 1, 2, 0, 3, 0, 3],
        // grouped, three builds
        vec![16, 4, 4, 16, 20, 5, 3, 1, 1, 2, 8, 8, 2, 1, 1, 4, 5, 6, 5, 7, 2, 1, 2, 9, 1, 1, 1, 3, 0, 3, 3],
        vec![8, 1, 2, 4, 8, 4, 1, 0, 1, 3, 1, 2, 4, 0, 1, 2, 250, 4],
    ]
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
