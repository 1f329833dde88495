//! Validation of batches by hand: layouts of ragged and paged keys, and errors.

mod cascade;
mod device;
mod padded;

use super::*;

/// Keys per page of the tables below.
const PAGE_SIZE: u32 = 4;
/// Pages in their pool.
const POOL: u32 = 10;

fn table<'a>(indptr: &'a [i32], indices: &'a [i32], last: &'a [i32]) -> PageTable<'a> {
    PageTable { indptr, indices, last_page_len: last, page_size: PAGE_SIZE, num_pages: POOL }
}

fn paged(qo: &[i32], pages: &PageTable<'_>) -> Result<Layout, BatchError> {
    Batch::paged(qo, pages).validate()
}

#[test]
fn a_ragged_batch_keeps_its_lengths() {
    let layout = Batch::ragged(&[0, 2, 2, 5], &[0, 3, 7, 7]).validate().expect("sound");
    assert_eq!((layout.batch(), layout.qo_tokens(), layout.kv_tokens()), (3, 5, 7));
    assert_eq!((layout.qo_len(1), layout.kv_len(2), layout.max_qo_len()), (0, 0, 3));
    assert!(layout.pages().is_none());
}

#[test]
fn a_batch_of_none_is_sound() {
    assert_eq!(Batch::ragged(&[0], &[0]).validate().expect("sound").batch(), 0);
    assert_eq!(paged(&[0], &table(&[0], &[], &[])).expect("sound").batch(), 0);
}

#[test]
fn paged_lengths_come_from_the_last_page() {
    let layout = paged(&[0, 1, 2, 3], &table(&[0, 2, 2, 3], &[9, 0, 5], &[3, 0, 4])).expect("sound");
    assert_eq!(layout.kv_indptr(), [0, 7, 7, 11]);
    let pages = layout.pages().expect("paged");
    assert_eq!((pages.locate(0, 3), pages.locate(0, 4), pages.locate(2, 1)), ((9, 3), (0, 0), (5, 1)));
    assert_eq!(pages.min_pool(), 10);
}

#[test]
fn page_indices_past_the_table_are_ignored() {
    let layout = paged(&[0, 1], &table(&[0, 1], &[2, -7, 99], &[1])).expect("sound");
    assert_eq!(layout.pages().expect("paged").indices(), [2]);
}

#[test]
fn bad_prefix_sums_are_named() {
    let ragged = |qo: &[i32], kv: &[i32]| Batch::ragged(qo, kv).validate().expect_err("bad");
    assert_eq!(ragged(&[], &[0]), BatchError::EmptyIndptr { array: "qo_indptr" });
    assert_eq!(ragged(&[0, 1], &[1, 2]), BatchError::IndptrStart { array: "kv_indptr", first: 1 });
    let error = ragged(&[0, 4, 3], &[0, 1, 2]);
    assert_eq!(error, BatchError::IndptrNotMonotone { array: "qo_indptr", index: 2, value: 3, before: 4 });
    assert_eq!(error.to_string(), "qo_indptr[2] = 3 is less than qo_indptr[1] = 4; prefix sums never decrease");
    assert!(matches!(ragged(&[0, 4, i32::MIN], &[0, 1, 2]), BatchError::IndptrNotMonotone { .. }));
    assert!(matches!(
        ragged(&[0, 4], &[0, 1, 2]),
        BatchError::LengthMismatch { array: "kv_indptr", len: 3, want: 2, .. }
    ));
}

#[test]
fn bad_page_tables_are_named() {
    let bad = |table: PageTable<'_>| paged(&[0, 1], &table).expect_err("bad");
    assert_eq!(bad(table(&[0, 1], &[10], &[1])), BatchError::PageOutOfPool { index: 0, page: 10, num_pages: POOL });
    assert!(matches!(bad(table(&[0, 1], &[-1], &[1])), BatchError::PageOutOfPool { page: -1, .. }));
    for last in [0, 5, -1, i32::MIN] {
        assert_eq!(
            bad(table(&[0, 1], &[1], &[last])),
            BatchError::LastPageLen { request: 0, last_page_len: last, page_size: PAGE_SIZE }
        );
    }
    assert_eq!(bad(table(&[0, 2], &[1], &[1])), BatchError::TooFewPages { indices: 1, indptr_end: 2 });
    assert!(matches!(bad(table(&[0, 1], &[1], &[])), BatchError::LengthMismatch { array: "last_page_len", .. }));
    assert!(matches!(bad(table(&[0, 1, 1], &[1], &[1, 0])), BatchError::LengthMismatch { array: "page_indptr", .. }));
    for page_size in [0, u32::MAX] {
        let table = PageTable { page_size, ..table(&[0, 1], &[1], &[1]) };
        assert_eq!(bad(table), BatchError::PageSize { page_size });
    }
}

#[test]
fn lengths_beyond_the_limits_are_refused() {
    let most = MAX_TOKENS;
    assert!(Batch::ragged(&[0, most], &[0, most]).validate().is_ok());
    let past = Batch::ragged(&[0, 1], &[0, most + 1]).validate().expect_err("too long");
    assert_eq!(past, BatchError::TooManyTokens { array: "kv_indptr", total: most + 1 });
    let past = Batch::ragged(&[0, most + 1], &[0, 1]).validate().expect_err("too long");
    assert_eq!(past, BatchError::TooManyTokens { array: "qo_indptr", total: most + 1 });
    let table = PageTable { page_size: 1 << 30, ..table(&[0, 2], &[1, 1], &[1 << 30]) };
    assert_eq!(paged(&[0, 1], &table).expect_err("too long"), BatchError::TooManyKeys { request: 0, total: 1 << 31 });
}

#[test]
fn prefix_sums_that_overflow_are_refused() {
    assert_eq!(indptr(&[u32::MAX, 1]), Err(BatchError::LengthsTooLong { index: 0, total: u64::from(u32::MAX) }));
}

#[test]
fn tables_are_made_from_lengths() {
    let mut next = 0..;
    let buf = PageTableBuf::from_lens(&[5, 0, 4], PAGE_SIZE, POOL, || next.next().expect("endless"));
    assert_eq!(
        (&buf.indptr[..], &buf.indices[..], &buf.last_page_len[..]),
        (&[0, 2, 2, 3][..], &[0, 1, 2][..], &[1, 0, 4][..])
    );
    let layout = paged(&[0, 1, 2, 3], &buf.table()).expect("sound");
    assert_eq!(layout.kv_indptr(), indptr(&[5, 0, 4]).expect("short"));
}

#[test]
fn reused_memory_changes_nothing() {
    let (ragged, small) = (Batch::ragged(&[0, 2, 5], &[0, 3, 9]), table(&[0, 1], &[7], &[4]));
    let large = table(&[0, 2, 2, 3], &[9, 0, 5], &[3, 0, 4]);
    let (large, small) = (Batch::paged(&[0, 1, 2, 3], &large), Batch::paged(&[0, 1], &small));
    let mut layout = Layout::default();
    for batch in [ragged, large, small, ragged, small, large] {
        batch.validate_into(&mut layout).expect("sound");
        assert_eq!(layout, batch.validate().expect("sound"));
    }
    // an error that is found last still leaves an empty layout
    let bad = table(&[0, 1, 2], &[1, 2], &[4, 0]);
    let error = Batch::paged(&[0, 1, 2], &bad).validate_into(&mut layout).expect_err("bad");
    assert!(matches!(error, BatchError::LastPageLen { request: 1, .. }));
    assert_eq!(layout, Layout::default());
    assert_eq!(layout.batch(), 0);
}
