//! Page tables, block tables, ragged keys and levels of a cascade.

use attn_core::batch::{Batch, BlockTable, CascadeLevel, CascadeLevelKv, Layout, PageTable};

use super::numbers::{Numbers, list};
use crate::harness::Seen;

/// The kind of batch, `qo_indptr`, then the fields in the order of `run`.
pub(crate) fn corpus() -> Vec<Vec<u8>> {
    let (prefill, decode) = (list(&[0, 3, 5]), list(&[0, 1, 2]));
    vec![
        // ragged: 5 and 9 keys
        [vec![0], prefill.clone(), list(&[0, 5, 14])].concat(),
        // paged: 5 and 12 keys, pages of 4 in a pool of 8
        [vec![1], prefill, list(&[0, 2, 5]), list(&[4, 0, 2, 1, 3]), list(&[1, 4]), vec![4, 8]].concat(),
        // a block table: rows of 3 pages, 9 and 12 keys, pages of 4 in a pool of 8
        [vec![2], decode.clone(), list(&[0, 1, 2, 3, 4, 5]), vec![3], list(&[9, 12]), vec![4, 8]].concat(),
        // two levels: 8 keys that both requests share, then 3 and 1 of their own
        [vec![3], decode.clone(), vec![2], list(&[0, 2]), list(&[0, 8]), decode, list(&[8, 11, 12])].concat(),
        // paged, no request
        [vec![1], list(&[0]), list(&[0]), list(&[]), list(&[]), vec![16, 4]].concat(),
    ]
}

pub(crate) fn run(data: &[u8]) -> Seen {
    let mut from = Numbers(data);
    let kind = from.byte() % 4;
    let qo_indptr = from.list(Numbers::i32);
    let result = match kind {
        0 => Batch::ragged(&qo_indptr, &from.list(Numbers::i32)).validate(),
        1 => {
            let [indptr, indices, last_page_len] = [(); 3].map(|()| from.list(Numbers::i32));
            let (page_size, num_pages) = (from.i32() as u32, from.i32() as u32);
            let (indptr, indices, last_page_len) = (&indptr, &indices, &last_page_len);
            let table = PageTable { indptr, indices, last_page_len, page_size, num_pages };
            let result = Batch::paged(&qo_indptr, &table).validate();
            result.inspect(|layout| check_keys_lie_in_pool(layout, num_pages))
        }
        2 => {
            let pages = from.list(Numbers::i32);
            let max_pages = from.number() as usize;
            let kv_lens = from.list(Numbers::i32);
            let (page_size, num_pages) = (from.i32() as u32, from.i32() as u32);
            let table = BlockTable { pages: &pages, max_pages, kv_lens: &kv_lens, page_size, num_pages };
            let result = Batch::block_table(&qo_indptr, &table).validate();
            result.inspect(|layout| check_keys_lie_in_pool(layout, num_pages))
        }
        _ => {
            let levels: Vec<[Vec<i32>; 2]> =
                (0..from.byte() % 9).map(|_| [(); 2].map(|()| from.list(Numbers::i32))).collect();
            let levels: Vec<CascadeLevel<'_>> = levels
                .iter()
                .map(|[qo_indptr, kv]| CascadeLevel { qo_indptr, kv: CascadeLevelKv::Ragged(kv) })
                .collect();
            Batch::cascade(&qo_indptr, &levels).validate()
        }
    };
    match result {
        Ok(layout) => {
            let requests = layout.batch();
            assert_eq!(requests + 1, qo_indptr.len());
            let queries: usize = (0..requests).map(|request| layout.qo_len(request)).sum();
            assert_eq!(queries, layout.qo_tokens());
            Seen::Accepted
        }
        Err(error) => {
            assert!(!error.to_string().is_empty());
            Seen::Refused
        }
    }
}

fn check_keys_lie_in_pool(layout: &Layout, num_pages: u32) {
    let pages = layout.pages().expect("in pages");
    assert!(pages.min_pool() <= num_pages);
    for request in 0..layout.batch() {
        let keys = layout.kv_len(request);
        // the first key of each page, and the last key
        let size = pages.page_size() as usize;
        for key in (0..keys).step_by(size.max(1)).chain(keys.checked_sub(1)) {
            let (page, slot) = pages.locate(request, key);
            assert!(page < num_pages as usize && slot < size, "key {key} of request {request}");
        }
    }
}
