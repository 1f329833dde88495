//! Page tables, block tables, ragged keys and levels of a cascade.

use attn_core::batch::{Batch, BlockTable, CascadeLevel, CascadeLevelKv, Layout, PageTable};

use super::numbers::Numbers;
use crate::harness::Seen;

pub(crate) fn corpus() -> Vec<Vec<u8>> {
    vec![
        // ragged, two requests: 3 and 2 queries, 5 and 9 keys
        vec![0, 3, 0, 3, 5, 3, 0, 5, 14],
        // paged, pages of 4 in a pool of 8
        vec![1, 3, 0, 3, 5, 3, 0, 2, 5, 5, 4, 0, 2, 1, 3, 2, 1, 4, 4, 8],
        // a block table, rows of 3 pages
        vec![2, 3, 0, 1, 2, 6, 0, 1, 2, 3, 4, 5, 3, 2, 9, 12, 4, 8],
        // two levels: 8 keys that both requests share, then 3 and 1 of their own
        vec![3, 3, 0, 1, 2, 2, 2, 0, 2, 2, 0, 8, 3, 0, 1, 2, 3, 8, 11, 12],
        vec![1, 1, 0, 1, 0, 0, 0, 16, 4],
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
            result.inspect(|layout| check(layout, num_pages))
        }
        2 => {
            let pages = from.list(Numbers::i32);
            let max_pages = from.number() as usize;
            let kv_lens = from.list(Numbers::i32);
            let (page_size, num_pages) = (from.i32() as u32, from.i32() as u32);
            let table = BlockTable { pages: &pages, max_pages, kv_lens: &kv_lens, page_size, num_pages };
            let result = Batch::block_table(&qo_indptr, &table).validate();
            result.inspect(|layout| check(layout, num_pages))
        }
        _ => {
            let levels: Vec<[Vec<i32>; 2]> =
                (0..from.byte() % 9).map(|_| [(); 2].map(|()| from.list(Numbers::i32))).collect();
            let of = |[qo_indptr, kv]: &'_ [Vec<i32>; 2]| (qo_indptr.clone(), kv.clone());
            let owned: Vec<_> = levels.iter().map(of).collect();
            let levels: Vec<CascadeLevel<'_>> = owned
                .iter()
                .map(|(qo_indptr, kv)| CascadeLevel { qo_indptr, kv: CascadeLevelKv::Ragged(kv) })
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

/// Every key lies within the pool.
fn check(layout: &Layout, num_pages: u32) {
    let pages = layout.pages().expect("in pages");
    assert!(pages.min_pool() <= num_pages);
    for request in 0..layout.batch() {
        let keys = layout.kv_len(request);
        // the ends of pages, and the last key
        let size = pages.page_size() as usize;
        for key in (0..keys).step_by(size.max(1)).chain(keys.checked_sub(1)) {
            let (page, slot) = pages.locate(request, key);
            assert!(page < num_pages as usize && slot < size, "key {key} of request {request}");
        }
    }
}
