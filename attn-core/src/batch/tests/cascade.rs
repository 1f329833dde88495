//! Cascades: segments, flattening, and errors.

use super::*;

fn ragged<'a>(qo_indptr: &'a [i32], kv_indptr: &'a [i32]) -> CascadeLevel<'a> {
    CascadeLevel { qo_indptr, kv: CascadeLevelKv::Ragged(kv_indptr) }
}

fn in_pages<'a>(qo_indptr: &'a [i32], table: PageTable<'a>) -> CascadeLevel<'a> {
    CascadeLevel { qo_indptr, kv: CascadeLevelKv::Paged(table) }
}

fn pages(layout: &Layout) -> &Pages {
    layout.pages().expect("paged")
}

#[test]
fn segments_are_runs_of_keys_in_the_order_of_levels() {
    // requests of 2, 0, 1 and 3 queries; groups 0..3 and 3..4, of which the second has no keys
    let qo = [0, 2, 2, 3, 6];
    let levels = [
        ragged(&[0, 3, 6], &[5, 15, 15]),
        ragged(&[0, 2, 3, 3, 6], &[20, 21, 22, 90, 99]),
        ragged(&qo, &[0, 1, 1, 3, 5]),
    ];
    let layout = Batch::cascade(&qo, &levels).validate().expect("sound");
    let segment = |request, requests, [kv_begin, keys, memory, pass]: [i32; 4], kv_token, kv_len| KvSegment {
        request,
        requests,
        kv_begin,
        keys,
        memory,
        pass,
        kv_token,
        kv_len,
    };
    let want = [
        segment(0, 3, [0, 10, 5, 0], 0, 12),
        segment(0, 1, [10, 1, 20, 10], 0, 12),
        segment(1, 2, [10, 1, 21, 11], 12, 11), // a request without queries is in the group of the next query
        segment(3, 1, [0, 9, 90, 12], 36, 11),
        segment(0, 1, [11, 1, 0, 21], 0, 12),
        segment(2, 1, [11, 2, 1, 22], 23, 13),
        segment(3, 1, [9, 2, 3, 24], 36, 11),
    ];
    assert_eq!(layout.segments(), want);
    assert_eq!(layout.kv_indptr(), [0, 12, 23, 36, 47]);
    assert_eq!((layout.kv_memory_tokens(), layout.kv_tokens()), (99, 47));
    let of = |request| layout.segments_of(request).map(|(i, _)| i).collect::<Vec<_>>();
    assert_eq!([0, 1, 2, 3].map(of), [vec![0, 1, 4], vec![0, 2], vec![0, 2, 5], vec![3, 6]]);
    let at = |key| layout.segment_at(2, key).map(|segment| segment.pass);
    assert_eq!([0, 9, 10, 11, 12, 13].map(at), [Some(0), Some(0), Some(11), Some(22), Some(22), None]);
    assert!(layout.flattened().is_none(), "ragged keys that are shared");
}

#[test]
fn ragged_levels_that_share_nothing_are_flat() {
    let qo = [0, 1, 2];
    let levels = [ragged(&qo, &[0, 4, 4]), ragged(&qo, &[4, 4, 9])];
    let layout = Batch::cascade(&qo, &levels).validate().expect("sound");
    assert_eq!(layout.flattened(), Some(Batch::ragged(&qo, &[0, 4, 9]).validate().expect("sound")));
    let elsewhere = [ragged(&qo, &[1, 5, 5]), ragged(&qo, &[5, 5, 10])];
    assert_eq!(Batch::cascade(&qo, &elsewhere).validate().expect("sound").flattened(), None);
}

#[test]
fn a_cascade_of_full_pages_has_a_table_without_levels() {
    let qo = [0, 1, 2, 3];
    let shared = |last: &'static [i32]| in_pages(&[0, 3], table(&[0, 2], &[7, 3], last));
    let own = in_pages(&qo, table(&[0, 1, 1, 3], &[0, 1, 2], &[2, 0, 3]));
    let layout = Batch::cascade(&qo, &[shared(&[4]), own]).validate().expect("sound");
    assert_eq!(pages(&layout).indices(), [7, 3, 0, 1, 2]);
    let flat = table(&[0, 3, 5, 9], &[7, 3, 0, 7, 3, 7, 3, 1, 2], &[2, 4, 3]);
    let want = paged(&qo, &flat).expect("sound");
    let flattened = layout.flattened().expect("full pages");
    assert_eq!((flattened.kv_indptr(), pages(&flattened).indptr()), (want.kv_indptr(), pages(&want).indptr()));
    assert_eq!(pages(&flattened).indices(), pages(&want).indices());
    // a partly filled page before further keys
    let part = Batch::cascade(&qo, &[shared(&[3]), own]).validate().expect("sound");
    assert_eq!((part.kv_len(0), part.flattened()), (9, None));
    let flat = Batch::cascade(&qo, &[own]).validate().expect("sound").flattened().expect("one level");
    assert_eq!(flat, paged(&qo, &table(&[0, 1, 1, 3], &[0, 1, 2], &[2, 0, 3])).expect("sound"));
}

#[test]
fn levels_of_several_page_sizes_share_a_pool_of_their_common_divisor() {
    let qo = [0, 1, 2];
    let wide = PageTable { page_size: 12, num_pages: 3, ..table(&[0, 2], &[2, 0], &[5]) };
    let fine = PageTable { page_size: 8, num_pages: 9, ..table(&[0, 1, 1], &[1], &[8, 0]) };
    let layout = Batch::cascade(&qo, &[in_pages(&[0, 2], wide), in_pages(&qo, fine)]).validate().expect("sound");
    assert_eq!((pages(&layout).page_size(), pages(&layout).min_pool()), (4, 9));
    // 12 keys of page 2, and 5 of page 0; 8 of page 1
    assert_eq!(pages(&layout).indices(), [6, 7, 8, 0, 1, 2, 3]);
    let segments: Vec<_> = layout.segments().iter().map(|s| (s.memory, s.kv_begin, s.keys)).collect();
    assert_eq!(segments, [(0, 0, 17), (5, 17, 8)]);
    let huge = PageTable { page_size: 1 << 20, num_pages: 1 << 30, ..table(&[0, 1], &[1 << 20], &[1]) };
    let error = Batch::cascade(&qo, &[in_pages(&[0, 2], huge), in_pages(&qo, PageTable { page_size: 1, ..fine })])
        .validate()
        .expect_err("2^40 pages");
    let too_large = BatchError::PoolTooLarge { pages: ((1 << 20) + 1) << 20, page_size: 1 };
    assert_eq!(error, BatchError::CascadeLevel { level: 0, error: Box::new(too_large) });
}

#[test]
fn bad_levels_are_named() {
    let qo = [0, 2, 2, 5];
    let bad = |levels: &[CascadeLevel<'_>]| Batch::cascade(&qo, levels).validate().expect_err("bad");
    let in_level = |level, error| BatchError::CascadeLevel { level, error: Box::new(error) };
    let good = ragged(&[0, 5], &[3, 9]);
    assert!(Batch::cascade(&qo, &[good, ragged(&qo, &[0, 1, 1, 3])]).validate().is_ok());
    assert_eq!(bad(&[]), BatchError::NoLevels);
    let paged = in_pages(&[0, 5], table(&[0, 1], &[1], &[1]));
    assert_eq!(bad(&[good, paged]), BatchError::LevelsDiffer { level: 1 });
    assert_eq!(bad(&[ragged(&[0, 4], &[0, 1])]), in_level(0, BatchError::LevelEnd { value: 4, want: 5 }));
    let cuts = bad(&[good, ragged(&[0, 2, 3, 5], &[0, 1, 2, 3])]);
    assert_eq!(cuts, in_level(1, BatchError::GroupCutsRequest { index: 2, value: 3, request: 2 }));
    assert_eq!(cuts.to_string(), "level 1: qo_indptr[2] = 3 lies within request 2; a group has whole requests");
    let coarser = bad(&[ragged(&[0, 2, 5], &[0, 1, 2]), ragged(&[0, 5], &[2, 3])]);
    assert_eq!(coarser, in_level(1, BatchError::NotNested { group: 0, request: 1 }));
    assert_eq!(bad(&[ragged(&[], &[])]), in_level(0, BatchError::EmptyIndptr { array: "qo_indptr" }));
    assert_eq!(bad(&[ragged(&[1, 5], &[0, 1])]), in_level(0, BatchError::IndptrStart { array: "qo_indptr", first: 1 }));
    let short = bad(&[ragged(&[0, 5], &[0])]);
    assert!(matches!(&short, BatchError::CascadeLevel { error, .. }
        if matches!(**error, BatchError::LengthMismatch { array: "kv_indptr", len: 1, want: 2, .. })));
    assert_eq!(
        bad(&[ragged(&[0, 5], &[-1, 4])]),
        in_level(0, BatchError::NegativeToken { array: "kv_indptr", value: -1 })
    );
    let falls = BatchError::IndptrNotMonotone { array: "kv_indptr", index: 1, value: 3, before: 4 };
    assert_eq!(bad(&[ragged(&[0, 5], &[4, 3])]), in_level(0, falls));
    let past = BatchError::TooManyTokens { array: "kv_indptr", total: MAX_TOKENS + 1 };
    assert_eq!(bad(&[ragged(&[0, 5], &[0, MAX_TOKENS + 1])]), in_level(0, past));
    let half = MAX_TOKENS / 2;
    assert!(matches!(bad(&[ragged(&[0, 5], &[0, half])]), BatchError::TooManyKeys { request: 2, .. }));
    let all = ragged(&[0, 5], &[0, MAX_TOKENS]);
    assert!(matches!(bad(&[all, all]), BatchError::TooManyKeys { request: 0, .. }));
    let outside = in_pages(&[0, 5], table(&[0, 1], &[10], &[1]));
    let error = BatchError::PageOutOfPool { index: 0, page: 10, num_pages: POOL };
    assert_eq!(bad(&[outside]), in_level(0, error));
    let last = in_pages(&[0, 5], table(&[0, 1], &[1], &[5]));
    let error = BatchError::LastPageLen { request: 0, last_page_len: 5, page_size: PAGE_SIZE };
    assert_eq!(bad(&[last]), in_level(0, error));
}

#[test]
fn a_capacity_bounds_levels_and_memory_of_a_cascade_can_be_reused() {
    let levels = [ragged(&[0, 2], &[0, 8]), ragged(&[0, 1, 2], &[8, 9, 11])];
    let mut layout = Batch::cascade(&[0, 1, 2], &levels).validate().expect("sound");
    let capacity = BatchCapacity::of(&layout);
    assert_eq!((capacity.levels, capacity.kv_tokens, capacity.kv_memory_tokens), (2, 19, Some(11)));
    assert_eq!(capacity.check(&layout), Ok(()));
    let past = |what, count, capacity| Err(BatchError::Capacity { what, count, capacity });
    assert_eq!(capacity.in_tokens(10).check(&layout), past("tokens of k and v", 11, 10));
    assert_eq!(capacity.in_levels(1).check(&layout), Err(BatchError::LevelsInCapacity));
    let three = [levels[0], levels[1], ragged(&[0, 1, 2], &[0, 0, 0])];
    let three = Batch::cascade(&[0, 1, 2], &three).validate().expect("sound");
    assert_eq!(capacity.check(&three), past("levels", 3, 2));
    assert_eq!(capacity.in_levels(3).check(&three), Ok(()));
    let largest = capacity.largest().expect("small");
    assert_eq!((largest.qo_tokens(), largest.kv_memory_tokens()), (2, 11));
    let flat = Batch::ragged(&[0, 1, 2], &[0, 9, 19]);
    flat.validate_into(&mut layout).expect("sound");
    assert_eq!(Ok(&layout), flat.validate().as_ref());
    assert_eq!(capacity.check(&layout), past("tokens of k and v", 19, 11));
    assert_eq!((capacity.flat_kv_tokens(), capacity.in_tokens(30).flat_kv_tokens()), (11, 19));
    assert_eq!(BatchCapacity { kv_memory_tokens: None, ..capacity }.check(&layout), Ok(()));
    let none = Batch::cascade(&[0], &[ragged(&[0], &[0])]).validate().expect("sound");
    assert!(none.batch() == 0 && none.segments().is_empty() && none.has_levels());
    let idle = Batch::cascade(&[0, 0, 0], &[ragged(&[0], &[0])]).validate().expect("sound");
    assert_eq!((idle.batch(), idle.kv_tokens()), (2, 0));
    // pages of groups without requests are not in the table
    let groups = in_pages(&[0, 0, 2], table(&[0, 2, 3], &[7, 3, 5], &[1, 4]));
    let layout = Batch::cascade(&[0, 1, 2], &[groups]).validate().expect("sound");
    assert_eq!((pages(&layout).indices(), layout.segments()[0].memory), (&[5][..], 0));
}
