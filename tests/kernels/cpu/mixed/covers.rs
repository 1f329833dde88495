//! Which keys the items of a mixed list have.

use std::ops::Range;

use attn_core::Variant;
use attn_core::batch::Layout;
use attn_core::lang::{LogitIndex, RowIndex};
use attn_core::plan::{MergeItem, WorkItem, WorkList};
use attn_core::spec::Heads;
use proptest::prelude::*;

/// The keys of a request that a PackGQA row attends to under at least one KV head.
fn attended(variant: &Variant, layout: &Layout, heads: Heads, request: usize, packed: usize) -> Vec<bool> {
    let (qo_len, kv_len) = (layout.qo_len(request) as i32, layout.kv_len(request) as i32);
    let group = heads.group() as usize;
    let qo_row = (packed / group) as i32;
    let mut any = vec![false; kv_len as usize];
    for kv_head in 0..heads.kv as i32 {
        let row = RowIndex {
            batch: request as i32,
            qo_row,
            qo_pos: qo_row + kv_len - qo_len,
            qo_token: layout.qo_indptr()[request] + qo_row,
            qo_head: kv_head * group as i32 + (packed % group) as i32,
            kv_head,
            qo_len,
            kv_len,
        };
        let mut keep = vec![true; kv_len as usize];
        variant.mask_tile(&mut keep, LogitIndex { row, kv_pos: 0, kv_token: layout.kv_indptr()[request], kv_slot: 0 });
        any.iter_mut().zip(keep).for_each(|(any, keep)| *any |= keep);
    }
    any
}

/// The (request, PackGQA row) of each row of an item.
fn rows_of(layout: &Layout, group: usize, item: &WorkItem) -> Vec<(usize, usize)> {
    let begin = layout.qo_indptr()[item.request as usize] as usize * group + item.first_row as usize;
    let all =
        (0..layout.batch()).flat_map(|request| (0..layout.qo_len(request) * group).map(move |row| (request, row)));
    all.skip(begin).take(item.rows as usize).collect()
}

/// Checks that each attended (row, key) pair is in exactly one item, and that parts of merges are in the order of keys.
pub(super) fn covers(variant: &Variant, layout: &Layout, heads: Heads, list: &WorkList) -> Result<(), TestCaseError> {
    let group = heads.group() as usize;
    let mut spans: Vec<Vec<(Range<usize>, i32)>> = vec![Vec::new(); layout.qo_tokens() * group];
    let first = |request: usize| layout.qo_indptr()[request] as usize * group;
    for item in &list.items {
        for (row, (request, packed)) in rows_of(layout, group, item).into_iter().enumerate() {
            let partial = if item.partial < 0 { -1 } else { item.partial + row as i32 };
            spans[first(request) + packed].push((item.kv_begin as usize..item.kv_end as usize, partial));
        }
        if item.full == 1 {
            for (request, packed) in rows_of(layout, group, item) {
                let keys =
                    &attended(variant, layout, heads, request, packed)[item.kv_begin as usize..item.kv_end as usize];
                prop_assert!(keys.iter().all(|&attended| attended), "{item:?} is not full");
            }
        }
    }
    for request in 0..layout.batch() {
        for packed in 0..layout.qo_len(request) * group {
            let spans = &mut spans[first(request) + packed];
            spans.sort_by_key(|(keys, _)| (keys.start, keys.end));
            for (key, _) in attended(variant, layout, heads, request, packed).iter().enumerate().filter(|(_, a)| **a) {
                let times = spans.iter().filter(|(keys, _)| keys.contains(&key)).count();
                prop_assert_eq!(times, 1, "request {} row {} key {}", request, packed, key);
            }
            let of_row = |merge: &&MergeItem| {
                merge.request as usize == request
                    && (merge.first_row..merge.first_row + merge.rows).contains(&(packed as i32))
            };
            let parts: Vec<i32> = spans.iter().map(|(_, partial)| *partial).collect();
            match list.merges.iter().find(of_row) {
                None => prop_assert_eq!(parts, [-1]),
                Some(merge) => {
                    let want = &list.merge_parts[merge.first as usize..][..merge.count as usize];
                    let row = packed as i32 - merge.first_row;
                    prop_assert_eq!(parts, want.iter().map(|part| part + row).collect::<Vec<_>>());
                }
            }
        }
    }
    Ok(())
}
