//! The kernel that checks batches, made by a host compiler: batches of nobody. What it says of others is tested in device_plan.rs.

extern crate attn_core as attn;

use attn::{
    Variant,
    batch::{BatchCapacity, BatchError},
};
use attn_tests::device_plan::{Arrays, HostPlanner};

#[test]
fn batches_without_requests_begin_at_nothing() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let planner = HostPlanner::compile(&Variant::full(), folder.path());
    let capacity = BatchCapacity::decode(8, 800).in_pages(16, 1000);
    let nobody =
        Arrays { qo_indptr: vec![0], page_indptr: Some(vec![0]), page_indices: vec![7; 4], ..Arrays::default() };
    for seed in [1, 8] {
        let check = |arrays: &Arrays| planner.check(&capacity, arrays, seed);
        assert_eq!(check(&nobody), Ok(()));
        let queries = Arrays { qo_indptr: vec![2], ..nobody.clone() };
        assert_eq!(check(&queries), Err(BatchError::IndptrStart { array: "qo_indptr", first: 2 }));
        // within the table, past its end, and before it
        for first in [3, 1 << 20, i32::MAX, -1] {
            let pages = Arrays { page_indptr: Some(vec![first]), ..nobody.clone() };
            assert_eq!(check(&pages), Err(BatchError::IndptrStart { array: "page_indptr", first }));
        }
    }
}
