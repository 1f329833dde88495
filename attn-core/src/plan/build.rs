//! Cutting a batch into work.

use super::{
    MergeItem, PlanError, PlanRule, WorkItem, WorkList,
    list::lists_of,
    rows::{RowTile, count_i32, row_tiles},
    search::last_true,
    visible::{Finder, Visible},
};
use crate::{
    batch::Layout,
    expr::Variant,
    lang::{Tile, TileClass},
    spec::Heads,
};

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
    /// Deterministic: the same arguments give the same list. `classify` is asked O(log keys) times a tile, and a few times where the
    /// spans of neighbouring tiles end alike.
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
        check(group, rule)?;
        let tiles = row_tiles(layout, u64::from(group), u64::from(rule.tile_rows), None)?;
        let mut finder = Finder::of_function(layout, classify, group, u64::from(rule.kv_align));
        let seen = tiles.iter().map(|tile| finder.find(*tile)).collect();
        Cut { layout, rule, arms: 1, tiles, seen }.into_list(group, false)
    }

    /// The work of a batch under a bound variant: its keys as far as its tile classes, `kv_range` and lists say which they are, one arm of a
    /// union after the other. The partial states of a tile lie together, whatever arms they are of, and one merge takes them all.
    ///
    /// Deterministic: the same arguments give the same list.
    ///
    /// # Errors
    ///
    /// As [`WorkList::build`]; also a list of more keys than `i32` counts.
    pub fn build_for(variant: &Variant, layout: &Layout, heads: Heads, rule: &PlanRule) -> Result<Self, PlanError> {
        let group = heads.group();
        check(group, rule)?;
        let (tile_rows, align) = (u64::from(rule.tile_rows), u64::from(rule.kv_align));
        if let Some(lists) = lists_of(variant) {
            let tiles = row_tiles(layout, u64::from(group), tile_rows, Some(lists.queries))?;
            let see = |tile: &RowTile| lists.visible(layout, heads, *tile, align);
            let seen = tiles.iter().map(see).collect::<Result<_, _>>()?;
            return Cut { layout, rule, arms: 1, tiles, seen }.into_list(group, true);
        }
        let tiles = row_tiles(layout, u64::from(group), tile_rows, None)?;
        let arms = variant.arms();
        let mut finders: Vec<_> = arms.iter().map(|arm| Finder::of_variant(layout, arm, heads, align)).collect();
        let mut seen = Vec::with_capacity(tiles.len() * finders.len());
        for tile in &tiles {
            seen.extend(finders.iter_mut().map(|finder| finder.find(*tile)));
        }
        Cut { layout, rule, arms: finders.len(), tiles, seen }.into_list(group, false)
    }

    /// The items of each arm of a union, as ranges of [`WorkList::items`]; all of them without a union.
    pub fn arms(&self) -> impl ExactSizeIterator<Item = std::ops::Range<usize>> {
        let whole = self.arm_items.is_empty();
        let counts = if whole { vec![self.items.len()] } else { self.arm_items.iter().map(|&n| n as usize).collect() };
        let mut end = 0;
        counts.into_iter().map(move |count| {
            end += count;
            end - count..end
        })
    }
}

fn check(group: u32, rule: &PlanRule) -> Result<(), PlanError> {
    let least = [("tile_rows", rule.tile_rows), ("kv_align", rule.kv_align), ("group", group)];
    match least.into_iter().find(|(_, value)| *value == 0) {
        Some((what, _)) => Err(PlanError::Zero { what }),
        None => Ok(()),
    }
}

/// Tiles of rows and what they see, to be cut into spans.
struct Cut<'a> {
    layout: &'a Layout,
    rule: &'a PlanRule,
    arms: usize,
    tiles: Vec<RowTile>,
    /// `[tiles][arms]`.
    seen: Vec<Visible>,
}

impl Cut<'_> {
    fn into_list(self, group: u32, lists: bool) -> Result<WorkList, PlanError> {
        let shortest = u64::from(self.rule.min_span.div_ceil(self.rule.kv_align)).max(1);
        let span = self.span_blocks(shortest);
        let mut list = WorkList { tile_rows: self.rule.tile_rows, group, lists, ..WorkList::default() };
        let mut items = Vec::from_iter((0..self.arms).map(|_| Vec::with_capacity(self.tiles.len())));
        let mut pieces = Vec::with_capacity(self.arms);
        for (tile, seen) in self.tiles.iter().zip(self.seen.chunks_exact(self.arms)) {
            pieces.clear();
            pieces.extend(seen.iter().map(|visible| Pieces::of(visible, span, shortest)));
            list.push(&self.place(*tile), &pieces, u64::from(self.rule.kv_align), &mut items)?;
        }
        if self.rule.longest_first {
            items.iter_mut().for_each(|arm| arm.sort_by_key(|item| std::cmp::Reverse(item.kv_end - item.kv_begin)));
        }
        count_i32("work items", items.iter().map(|arm| arm.len() as u64).sum())?;
        if self.arms > 1 {
            list.arm_items = items.iter().map(|arm| arm.len() as u32).collect();
        }
        list.items = if self.arms > 1 { items.concat() } else { items.pop().unwrap_or_default() };
        list.workers = (0..=list.items.len() as i32).collect();
        Ok(list)
    }

    /// A tile as an item without keys.
    fn place(&self, tile: RowTile) -> WorkItem {
        let (request, layout) = (tile.request, self.layout);
        WorkItem {
            request: request as i32,
            first_row: tile.first_row as i32,
            rows: tile.rows as i32,
            partial: -1,
            merge: -1,
            qo_token: layout.qo_indptr()[request],
            qo_len: layout.qo_len(request) as i32,
            kv_token: layout.kv_indptr()[request],
            kv_len: layout.kv_len(request) as i32,
            page: layout.pages().map_or(0, |pages| pages.indptr()[request]),
            ..WorkItem::default()
        }
    }

    /// The longest span of an item, in blocks: the shortest for which there are no more items than aimed for.
    fn span_blocks(&self, shortest: u64) -> u64 {
        let lengths = || self.seen.iter().map(|seen| seen.blocks.end - seen.blocks.start);
        let longest = lengths().max().unwrap_or(0).max(1);
        let target = u64::from(self.rule.target_items);
        if target == 0 || self.tiles.len() as u64 >= target {
            return longest;
        }
        let items = |span: u64| -> u64 { lengths().map(|blocks| blocks.div_ceil(span).max(1)).sum() };
        let spare = longest.saturating_sub(shortest);
        longest - last_true(spare, &|shorter| shorter == 0 || items(longest - shorter) <= target)
    }
}

/// Keys of a tile, cut into spans of equal length.
struct Pieces<'a> {
    seen: &'a Visible,
    /// Blocks of a span.
    each: u64,
    count: u64,
}

impl<'a> Pieces<'a> {
    /// About `span` blocks each, at least `shortest`; none where nothing is seen.
    fn of(seen: &'a Visible, span: u64, shortest: u64) -> Self {
        let blocks = seen.blocks.end - seen.blocks.start;
        let each = blocks.div_ceil(blocks.div_ceil(span).min(blocks / shortest).max(1)).max(1);
        Pieces { seen, each, count: blocks.div_ceil(each) }
    }

    /// The keys of piece `i`, first and one past the last.
    fn keys(&self, i: u64, align: u64) -> (i32, i32) {
        let begin = self.seen.blocks.start + i * self.each;
        let end = (begin + self.each).min(self.seen.blocks.end);
        let key = |block: u64| (block * align).min(self.seen.keys) as i32;
        (key(begin), key(end))
    }
}

impl WorkList {
    /// Adds the items of one tile, arm by arm, and their merge. Someone must write the tile, so that there is one item at least.
    fn push(
        &mut self,
        tile: &WorkItem,
        pieces: &[Pieces<'_>],
        align: u64,
        items: &mut [Vec<WorkItem>],
    ) -> Result<(), PlanError> {
        let count = pieces.iter().map(|pieces| pieces.count).sum::<u64>().max(1);
        let partial = count > 1 || pieces.len() > 1;
        let first = u64::from(self.slots);
        if partial {
            self.slots = count_i32("partial states", first + count)? as u32;
        }
        let merge = if partial { self.merges.len() as i32 } else { -1 };
        let mut slot = first as i32;
        let mut item = |(kv_begin, kv_end)| {
            let partial = if partial { slot } else { -1 };
            slot += 1;
            WorkItem { kv_begin, kv_end, partial, merge, ..*tile }
        };
        for (pieces, items) in pieces.iter().zip(items.iter_mut()) {
            items.extend((0..pieces.count).map(|i| item(pieces.keys(i, align))));
        }
        if let (true, Some(items)) = (pieces.iter().all(|pieces| pieces.count == 0), items.first_mut()) {
            items.push(item((0, 0)));
        }
        if partial {
            let (first, count) = (first as i32, count as i32);
            let &WorkItem { request, first_row, rows, qo_token, qo_len, kv_len, .. } = tile;
            self.merges.push(MergeItem { request, first_row, rows, first, count, qo_token, qo_len, kv_len });
        }
        Ok(())
    }
}
