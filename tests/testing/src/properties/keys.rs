//! `kv_range` and `kv_list_*` agree with the mask and with each other.

use std::collections::HashSet;

use crate::TestError;
use attn::Variant;
use attn_core::lang::{Hook, LogitIndex, QueryTile};

use super::{HEADS, Sample, samples, violated};

/// Checks `kv_range` against the mask, and lists against each other: rows that share a list have the same one, and no
/// block comes twice.
///
/// # Errors
///
/// The first violation.
pub fn keys(variant: &Variant) -> Result<(), TestError> {
    for sample in samples(variant, 40) {
        let sample = sample?;
        if sample.variant.has(Hook::KvRange) {
            ranges(&sample)?;
        }
        if sample.variant.has_kv_list() {
            lists(&sample)?;
        }
    }
    Ok(())
}

fn ranges(sample: &Sample) -> Result<(), TestError> {
    let (variant, layout) = (&sample.variant, &sample.layout);
    for request in 0..layout.batch() {
        let (qo_len, kv_len) = (layout.qo_len(request), layout.kv_len(request));
        for qo_head in 0..HEADS.qo as i32 {
            for first in (0..qo_len).step_by(5) {
                let last = (first + 4).min(qo_len - 1);
                let of = |qo_row| layout.row(HEADS, request, qo_row, qo_head as usize);
                let rows =
                    QueryTile { qo_head_min: qo_head, qo_head_max: qo_head, ..QueryTile::of(of(first), of(last), 1) };
                let (begin, end) = variant.kv_range(rows);
                for qo_row in first..=last {
                    let at =
                        LogitIndex { row: of(qo_row), kv_pos: 0, kv_token: layout.kv_indptr()[request], kv_slot: 0 };
                    let mut keep = vec![true; kv_len];
                    variant.mask_tile(&mut keep, at);
                    let outside = |(key, keep): &(i32, bool)| *keep && (*key < begin || *key >= end);
                    if let Some((key, _)) = (0..).zip(keep).find(outside) {
                        let why = format!(
                            "{begin}..{end} for queries at {} to {}, but head {qo_head} at {} attends to key {key}",
                            rows.qo_pos_min, rows.qo_pos_max, at.qo_pos
                        );
                        return Err(violated("`kv_range` leaves out keys that the mask attends to", why));
                    }
                }
            }
        }
    }
    Ok(())
}

fn lists(sample: &Sample) -> Result<(), TestError> {
    let (variant, layout) = (&sample.variant, &sample.layout);
    let Some((_, queries)) = variant.kv_list_sizes() else { return Ok(()) };
    let list_of = |at| (0..variant.kv_list_len(at)).map(|n| variant.kv_list_block(at, n)).collect::<Vec<_>>();
    for request in 0..layout.batch() {
        for qo_row in 0..layout.qo_len(request) {
            for qo_head in 0..HEADS.qo as usize {
                let list = list_of(layout.row(HEADS, request, qo_row, qo_head));
                let mut seen = HashSet::new();
                if let Some(twice) = list.iter().find(|&&block| block >= 0 && !seen.insert(block)) {
                    let why = format!("block {twice} in the list of query {qo_row} and head {qo_head}");
                    return Err(violated("a block comes twice in a list, so that its keys would count twice", why));
                }
                let first = qo_row - qo_row % queries as usize;
                let group = HEADS.group() as usize;
                let asked = layout.row(HEADS, request, first, qo_head / group * group);
                let of_first = list_of(asked);
                if list != of_first {
                    let why = format!(
                        "query {qo_row}, head {qo_head} has {list:?}; kernels ask query {first}, head {}: {of_first:?}",
                        asked.qo_head
                    );
                    return Err(violated(
                        "rows that share a list (`kv_list_queries`, heads of a KV head) have different ones",
                        why,
                    ));
                }
            }
        }
    }
    Ok(())
}
