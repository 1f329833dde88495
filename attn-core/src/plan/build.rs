//! Cutting a batch into work.

use std::ops::Range;

use super::{MergeItem, PlanError, PlanRule, WorkItem, WorkList};
use crate::{
    batch::Layout,
    lang::{self, Tile, TileClass},
};

/// One query tile and the keys that it may attend to, in blocks of `kv_align`.
struct QueryTile {
    request: i32,
    qo_tile: i32,
    kv_len: u64,
    blocks: Range<u64>,
}

impl WorkList {
    /// The work of a batch in which every query may attend to every key. `group` is query heads per KV head.
    ///
    /// # Errors
    ///
    /// A rule with a 0 where 1 is the least, or more rows or items than `i32` counts.
    pub fn build(layout: &Layout, group: u32, rule: &PlanRule) -> Result<Self, PlanError> {
        Self::build_visible(layout, group, rule, &|_| TileClass::Partial)
    }

    /// The work of a batch under a mask: keys before the first and after the last that `classify` does not
    /// prove skipped are left out, so that spans count real work. A tile without keys left has one item with an
    /// empty span, which writes O = 0.
    ///
    /// Deterministic: the same arguments give the same list. `classify` is asked O(log keys) times a tile.
    ///
    /// # Errors
    ///
    /// As [`WorkList::build`].
    pub fn build_visible(
        layout: &Layout,
        group: u32,
        rule: &PlanRule,
        classify: &dyn Fn(Tile) -> TileClass,
    ) -> Result<Self, PlanError> {
        for (what, value) in [("tile_rows", rule.tile_rows), ("kv_align", rule.kv_align), ("group", group)] {
            if value == 0 {
                return Err(PlanError::Zero { what });
            }
        }
        let tiles = query_tiles(layout, group, rule, classify)?;
        let shortest = u64::from(rule.min_span.div_ceil(rule.kv_align)).max(1);
        let span = span_blocks(&tiles, rule, shortest);
        let mut list = WorkList { tile_rows: rule.tile_rows, group, ..WorkList::default() };
        for tile in &tiles {
            list.push(tile, span, shortest, u64::from(rule.kv_align))?;
        }
        if rule.longest_first {
            list.items.sort_by_key(|item| std::cmp::Reverse(item.kv_end - item.kv_begin));
        }
        Ok(list)
    }

    /// Cuts the keys of one tile into spans of equal length: about `span` blocks each, at least `shortest`.
    fn push(&mut self, tile: &QueryTile, span: u64, shortest: u64, align: u64) -> Result<(), PlanError> {
        let blocks = tile.blocks.end - tile.blocks.start;
        let per_item = blocks.div_ceil(blocks.div_ceil(span).min(blocks / shortest).max(1)).max(1);
        let count = blocks.div_ceil(per_item).max(1);
        let first = self.slots;
        for i in 0..count {
            let begin = tile.blocks.start + i * per_item;
            let end = (begin + per_item).min(tile.blocks.end);
            let key = |block: u64| (block * align).min(tile.kv_len) as i32;
            let partial = if count == 1 { -1 } else { count_i32("partial states", u64::from(first) + i)? };
            self.items.push(WorkItem {
                request: tile.request,
                qo_tile: tile.qo_tile,
                kv_begin: key(begin),
                kv_end: key(end),
                partial,
                _pad: [0; 3],
            });
        }
        if count > 1 {
            let count = count_i32("partial states", count)?;
            self.slots = count_i32("partial states", u64::from(first) + count as u64)? as u32;
            self.merges.push(MergeItem { request: tile.request, qo_tile: tile.qo_tile, first: first as i32, count });
        }
        Ok(())
    }
}

fn query_tiles(
    layout: &Layout,
    group: u32,
    rule: &PlanRule,
    classify: &dyn Fn(Tile) -> TileClass,
) -> Result<Vec<QueryTile>, PlanError> {
    let (group, tile_rows, align) = (u64::from(group), u64::from(rule.tile_rows), u64::from(rule.kv_align));
    let mut rows = 0u64;
    let mut total = 0u64;
    for request in 0..layout.batch() {
        let packed = layout.qo_len(request) as u64 * group;
        rows = rows.max(packed);
        total += packed.div_ceil(tile_rows);
    }
    count_i32("packed rows of one request", rows)?;
    count_i32("query tiles", total)?;
    let mut tiles = Vec::with_capacity(total as usize);
    for request in 0..layout.batch() {
        let (qo_len, kv_len) = (layout.qo_len(request) as u64, layout.kv_len(request) as u64);
        let rows = qo_len * group;
        for qo_tile in 0..rows.div_ceil(tile_rows) {
            let first = qo_tile * tile_rows / group;
            let last = ((qo_tile + 1) * tile_rows).min(rows).div_ceil(group) - 1;
            let pos = |row: u64| (row as i64 + kv_len as i64 - qo_len as i64) as i32;
            let (first_query, first_key) = (layout.qo_indptr()[request], layout.kv_indptr()[request]);
            let rows = lang::QueryTile {
                batch: request as i32,
                qo_row_min: first as i32,
                qo_row_max: last as i32,
                qo_pos_min: pos(first),
                qo_pos_max: pos(last),
                qo_token_min: first_query + first as i32,
                qo_token_max: first_query + last as i32,
                // the same list serves every head
                qo_head_min: 0,
                qo_head_max: i32::MAX,
                kv_head_min: 0,
                kv_head_max: i32::MAX,
                qo_len: qo_len as i32,
                kv_len: kv_len as i32,
            };
            let part = |keys: Range<u64>| Tile {
                rows,
                kv_pos_min: keys.start as i32,
                kv_pos_max: keys.end as i32 - 1,
                kv_token_min: first_key + keys.start as i32,
                kv_token_max: first_key + keys.end as i32 - 1,
            };
            let skipped = |blocks: Range<u64>| {
                let keys = blocks.start * align..(blocks.end * align).min(kv_len);
                keys.is_empty() || classify(part(keys)) == TileClass::Skip
            };
            let blocks = visible_blocks(kv_len.div_ceil(align), &skipped);
            tiles.push(QueryTile { request: request as i32, qo_tile: qo_tile as i32, kv_len, blocks });
        }
    }
    Ok(tiles)
}

/// The blocks that are left when the longest proven prefix and suffix are cut off.
///
/// Each cut is proven as a whole by one answer, so bisection is sound whatever the answers are; it finds the longest one
/// when a part of a skipped range is skipped too.
fn visible_blocks(blocks: u64, skipped: &dyn Fn(Range<u64>) -> bool) -> Range<u64> {
    let begin = last_true(blocks, &|n| skipped(0..n));
    if begin == blocks {
        return 0..0;
    }
    let end = blocks - last_true(blocks - begin, &|n| skipped(blocks - n..blocks));
    if begin < end { begin..end } else { 0..0 }
}

/// The largest `n <= max` with `holds(n)`, where `holds(0)` is given, found by bisection.
fn last_true(max: u64, holds: &dyn Fn(u64) -> bool) -> u64 {
    if max == 0 || holds(max) {
        return max;
    }
    let (mut yes, mut no) = (0, max); // `holds(yes)`, not `holds(no)`
    while no - yes > 1 {
        let mid = yes + (no - yes) / 2;
        if holds(mid) { yes = mid } else { no = mid }
    }
    yes
}

/// The longest span of an item, in blocks: the shortest for which there are no more items than aimed for.
fn span_blocks(tiles: &[QueryTile], rule: &PlanRule, shortest: u64) -> u64 {
    let longest = tiles.iter().map(|t| t.blocks.end - t.blocks.start).max().unwrap_or(0).max(1);
    if rule.target_items == 0 || tiles.len() >= rule.target_items as usize {
        return longest;
    }
    let items =
        |span: u64| -> u64 { tiles.iter().map(|t| (t.blocks.end - t.blocks.start).div_ceil(span).max(1)).sum() };
    let spare = longest.saturating_sub(shortest);
    longest - last_true(spare, &|shorter| shorter == 0 || items(longest - shorter) <= u64::from(rule.target_items))
}

fn count_i32(what: &'static str, value: u64) -> Result<i32, PlanError> {
    i32::try_from(value).map_err(|_| PlanError::TooMany { what, value })
}
