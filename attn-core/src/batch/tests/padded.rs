//! Block tables: the same layout as compressed rows, and errors.

use super::*;
use proptest::prelude::*;

fn padded<'a>(pages: &'a [i32], max_pages: usize, kv_lens: &'a [i32]) -> BlockTable<'a> {
    BlockTable { pages, max_pages, kv_lens, page_size: PAGE_SIZE, num_pages: POOL }
}

proptest! {
    #[test]
    fn a_block_table_has_the_layout_of_its_compressed_rows(
        lens in proptest::collection::vec(0u32..60, 0..9),
        page_size in 1u32..9,
        spare in 0usize..4,
    ) {
        let mut next = 0..;
        let rows = PageTableBuf::from_lens(&lens, page_size, 600, || next.next().expect("endless") * 7919 % 601 % 600);
        let max_pages = lens.iter().map(|len| len.div_ceil(page_size) as usize).max().unwrap_or(0) + spare;
        let mut pages = vec![i32::MIN; lens.len() * max_pages + spare];
        for (request, ends) in rows.indptr.windows(2).enumerate() {
            let of_request = &rows.indices[ends[0] as usize..ends[1] as usize];
            pages[request * max_pages..][..of_request.len()].copy_from_slice(of_request);
        }
        let qo: Vec<i32> = (0..=lens.len() as i32).collect();
        let kv_lens: Vec<i32> = lens.iter().map(|&len| len as i32).collect();
        let table = BlockTable { pages: &pages, max_pages, kv_lens: &kv_lens, page_size, num_pages: 600 };
        let csr = Batch::paged(&qo, &rows.table()).validate().expect("sound");
        let batch = Batch::block_table(&qo, &table);
        prop_assert_eq!(&batch.validate().expect("sound"), &csr);
        // reuses the memory of another layout
        let mut layout = Batch::ragged(&[0, 1], &[0, 3]).validate().expect("sound");
        batch.validate_into(&mut layout).expect("sound");
        prop_assert_eq!(&layout, &csr);
    }
}

#[test]
fn u32_arrays_are_reinterpreted_as_i32() {
    assert_eq!(words(&[0, 7, i32::MAX as u32, u32::MAX]), [0, 7, i32::MAX, -1]);
    let pages = [3u32, u32::MAX, 1 << 31];
    let table = padded(words(&pages), 3, &[4]);
    assert_eq!(Batch::block_table(words(&[0, 1]), &table).validate().expect("one page").kv_indptr(), [0, 4]);
    let table = padded(words(&pages), 3, &[9]);
    assert_eq!(
        Batch::block_table(&[0, 1], &table).validate(),
        Err(BatchError::BlockTablePage { request: 0, index: 1, page: -1, num_pages: POOL })
    );
    let ends = words(&[0, 1 << 31]);
    assert_eq!(
        Batch::ragged(ends, &[0, 1]).validate(),
        Err(BatchError::IndptrNotMonotone { array: "qo_indptr", index: 1, value: i32::MIN, before: 0 })
    );
}

#[test]
fn bad_block_tables_are_named() {
    let bad = |table: BlockTable<'_>| Batch::block_table(&[0, 1, 2], &table).validate().expect_err("bad");
    let pages = [1, 2, 3, 4];
    assert!(Batch::block_table(&[0, 1, 2], &padded(&pages, 2, &[5, 8])).validate().is_ok());
    assert_eq!(bad(padded(&pages, 2, &[5, -1])), BatchError::KvLen { request: 1, kv_len: -1 });
    assert_eq!(
        bad(padded(&pages, 2, &[5, 9])),
        BatchError::FewPages { request: 1, pages: 2, kv_len: 9, page_size: PAGE_SIZE }
    );
    let few = bad(padded(&pages[..3], 2, &[5, 1]));
    assert!(matches!(few, BatchError::LengthMismatch { array: "block_table", len: 3, want: 4, .. }), "{few}");
    let lens = bad(padded(&pages, 2, &[5]));
    assert!(matches!(lens, BatchError::LengthMismatch { array: "kv_lens", len: 1, want: 2, .. }), "{lens}");
    for page in [10, -1, i32::MIN, i32::MAX] {
        let outside = bad(padded(&[1, 2, 3, page], 2, &[5, 8]));
        assert_eq!(outside, BatchError::BlockTablePage { request: 1, index: 1, page, num_pages: POOL });
    }
    assert_eq!(
        bad(padded(&[1, 2, 3, 10], 2, &[5, 8])).to_string(),
        "block_table[1][1] = 10 is outside the pool of 10 pages (0 to num_pages - 1)"
    );
    for page_size in [0, u32::MAX] {
        assert_eq!(bad(BlockTable { page_size, ..padded(&pages, 2, &[5, 8]) }), BatchError::PageSize { page_size });
    }
    let large = BlockTable { page_size: 1 << 30, ..padded(&pages, 2, &[1 << 30, 1]) };
    assert_eq!(bad(large), BatchError::TooManyKeys { request: 0, total: 1 << 30 });
}
