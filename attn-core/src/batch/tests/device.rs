//! Batches of device arrays, here in host memory: layouts, and errors.

use super::*;

const PAGES: PagePool = PagePool { page_size: PAGE_SIZE, num_pages: 9 };

fn compressed<'a>(indptr: &'a [i32], indices: &'a [i32]) -> DevicePages<'a> {
    DevicePages::Compressed { indptr: I32Slice::host(indptr), indices: I32Slice::host(indices) }
}

fn two_a_row(indices: &[i32]) -> DevicePages<'_> {
    DevicePages::Padded { indices: I32Slice::host(indices), max_pages: 2 }
}

/// Three requests of 1, 0 and 1 queries.
fn paged<'a>(kv_lens: &'a [i32], pages: DevicePages<'a>) -> DeviceBatch<'a> {
    DeviceBatch::paged(I32Slice::host(&[0, 1, 1, 2]), I32Slice::host(kv_lens), pages)
}

fn ragged<'a>(qo_indptr: &'a [i32], kv_lens: &'a [i32]) -> DeviceBatch<'a> {
    DeviceBatch::ragged(I32Slice::host(qo_indptr), I32Slice::host(kv_lens))
}

#[test]
fn compressed_and_padded_tables_give_one_layout() {
    // the first request has a surplus page
    let batch = paged(&[5, 0, 4], compressed(&[0, 3, 3, 4], &[7, 8, 0, 2, 99]));
    let layout = batch.layout(Some(PAGES)).expect("sound").expect("on the host");
    assert_eq!((layout.qo_indptr(), layout.kv_indptr()), (&[0, 1, 1, 2][..], &[0, 5, 5, 9][..]));
    assert_eq!(layout.pages().map(Pages::indices), Some(&[7, 8, 2][..]));
    let padded = paged(&[5, 0, 4], two_a_row(&[7, 8, -1, -1, 2, 99, 5]));
    assert_eq!(padded.layout(Some(PAGES)).expect("sound"), Some(layout));
}

#[test]
fn tables_with_too_few_pages_are_refused() {
    let few = |pages| BatchError::FewPages { request: 2, pages, kv_len: 9, page_size: PAGE_SIZE };
    let padded = paged(&[5, 0, 9], two_a_row(&[7, 8, -1, -1, 2, 99]));
    assert_eq!(padded.layout(Some(PAGES)), Err(few(2)));
    let rows = paged(&[5, 0, 9], compressed(&[0, 3, 3, 4], &[7, 8, 0, 2]));
    assert_eq!(rows.layout(Some(PAGES)), Err(few(1)));
    let short = paged(&[5, 0, 4], two_a_row(&[7, 8, -1, -1, 2])).requests();
    assert!(matches!(short, Err(BatchError::LengthMismatch { array: "page_indices", len: 5, want: 6, .. })));
    let short = paged(&[5, 0, 4], compressed(&[0, 3, 3, 4], &[7, 8])).layout(Some(PAGES));
    assert_eq!(short, Err(BatchError::TooFewPages { indices: 2, indptr_end: 4 }));
}

#[test]
fn bad_pages_and_lengths_are_named() {
    let outside = paged(&[5, 0, 4], compressed(&[0, 2, 2, 3], &[7, 9, 0])).layout(Some(PAGES));
    assert_eq!(outside, Err(BatchError::PageOutOfPool { index: 1, page: 9, num_pages: 9 }));
    assert_eq!(ragged(&[0, 1], &[-1]).layout(None), Err(BatchError::KvLen { request: 0, kv_len: -1 }));
    let other = ragged(&[0, 1], &[1]).layout(Some(PAGES));
    assert!(matches!(other, Err(BatchError::OtherKeys { .. })));
    let lens = ragged(&[0, 1, 2], &[3]).requests();
    assert!(matches!(lens, Err(BatchError::LengthMismatch { array: "kv_lens", len: 1, want: 2, .. })));
}

#[test]
fn more_queries_than_the_caller_promised_are_refused() {
    let two = ragged(&[0, 1, 2], &[3, 4]);
    assert!(two.with_qo_tokens(2).layout(None).is_ok_and(|layout| layout.is_some()));
    let error = BatchError::Capacity { what: "queries", count: 2, capacity: 1 };
    assert_eq!(two.with_qo_tokens(1).layout(None), Err(error));
}

#[test]
fn a_batch_in_device_memory_has_no_layout_on_the_host() {
    // SAFETY: it is never read.
    let elsewhere = DeviceBatch { kv_lens: unsafe { I32Slice::device(0x1000, 1) }, ..ragged(&[0, 1], &[-1]) };
    assert_eq!(elsewhere.layout(None), Ok(None));
}

fn prompt<'a>(kv_lens: &'a [i32], pages: Option<DevicePages<'a>>) -> DeviceBatch<'a> {
    DeviceBatch { pages, ..DeviceBatch::ragged(I32Slice::host(&[0, 2]), I32Slice::host(kv_lens)) }
}

#[test]
fn levels_come_before_the_keys_of_requests() {
    let levels = [prompt(&[6], Some(compressed(&[0, 3], &[3, 4, 99])))];
    let own = paged(&[5, 0, 4], two_a_row(&[7, 8, -1, -1, 2, 99]));
    let layout = own.with_levels(&levels).layout(Some(PAGES)).expect("sound").expect("on the host");
    assert_eq!(layout.kv_indptr(), [0, 11, 17, 27]);
    assert_eq!(layout.pages().map(Pages::indices), Some(&[3, 4, 7, 8, 2][..]));
    let levels = [prompt(&[6], None)];
    let own = ragged(&[0, 1, 1, 2], &[5, 0, 4]);
    let layout = own.with_levels(&levels).layout(None).expect("sound").expect("on the host");
    let memory: Vec<_> = layout.segments().iter().map(|segment| (segment.memory, segment.keys)).collect();
    assert_eq!(memory, [(0, 6), (6, 5), (11, 4)]);
}

#[test]
fn errors_of_levels_name_the_level() {
    let in_level = |error| Err(BatchError::CascadeLevel { level: 0, error: Box::new(error) });
    let own = ragged(&[0, 1, 1, 2], &[5, 0, 4]);
    let of = |own: DeviceBatch<'_>, level: DeviceBatch<'_>| own.with_levels(&[level]).layout(None).map(drop);
    assert_eq!(of(own, prompt(&[-1], None)), in_level(BatchError::KvLen { request: 0, kv_len: -1 }));
    let lens = BatchError::LengthMismatch { array: "kv_lens", len: 2, other: "qo_indptr", want: 1 };
    assert_eq!(of(own, prompt(&[1, 1], None)), in_level(lens));
    for level in [prompt(&[1], None).with_levels(&[prompt(&[1], None)]), prompt(&[1], None).with_qo_tokens(2)] {
        assert_eq!(of(own, level), in_level(BatchError::NotOfLevel));
    }
    let pages = Some(compressed(&[0, 1], &[3]));
    assert_eq!(of(own, prompt(&[1], pages)), Err(BatchError::LevelsDiffer { level: 0 }));
    let own = ragged(&[0, 1, 1, 3], &[5, 0, 4]);
    assert_eq!(of(own, prompt(&[1], None)), in_level(BatchError::LevelEnd { value: 2, want: 3 }));
    let own = ragged(&[0, 1, 1, 2], &[5, -2, 4]);
    assert_eq!(of(own, prompt(&[1], None)), Err(BatchError::KvLen { request: 1, kv_len: -2 }));
}
