//! The kernel that checks batches, compiled for the host, on batches without requests. `device_plan.rs` tests the
//! others.

use attn_core::Variant;
use attn_core::batch::{BatchCapacity, BatchError};
use attn_tests::device_plan::{Arrays, HostPlanner};

#[test]
fn prefix_sums_of_empty_batches_must_start_at_zero() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let planner = HostPlanner::compile(&Variant::full(), folder.path());
    let capacity = BatchCapacity::decode(8, 800).in_pages(16, 1000);
    let empty =
        Arrays { qo_indptr: vec![0], page_indptr: Some(vec![0]), page_indices: vec![7; 4], ..Arrays::default() };
    for seed in [1, 8] {
        let check = |arrays: &Arrays| planner.check(&capacity, arrays, seed);
        assert_eq!(check(&empty), Ok(()));
        let queries = Arrays { qo_indptr: vec![2], ..empty.clone() };
        assert_eq!(check(&queries), Err(BatchError::IndptrStart { array: "qo_indptr", first: 2 }));
        // within the table, past its end, and before it
        for first in [3, 1 << 20, i32::MAX, -1] {
            let pages = Arrays { page_indptr: Some(vec![first]), ..empty.clone() };
            assert_eq!(check(&pages), Err(BatchError::IndptrStart { array: "page_indptr", first }));
        }
    }
}
